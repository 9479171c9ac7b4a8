// Initializer: a weight's first value. Computed eagerly on the host in double precision from a seed, the same on every machine
// for the same seed.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/export.h"

namespace lamina::nn {

class LAMINA_API Initializer {
 public:
  // Writes size(shape) values, row-major.
  using Fill = std::function<void(std::span<double> values, std::span<const int64_t> shape, uint64_t seed)>;

  // By name: "zeros", "ones", "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "orthogonal", "looks_linear",
  // "random_uniform", "random_normal".
  // Throws not_found with the nearest names.
  Initializer(const char* name);
  Initializer(const std::string& name);
  // Your own.
  Initializer(std::string name, Fill fill);

  const std::string& name() const { return name_; }
  // The values for one weight. Throws invalid_argument, beginning with the initializer's name, for a shape it cannot fill.
  std::vector<double> operator()(std::span<const int64_t> shape, uint64_t seed) const;
  // The same initializer with its own seed: every weight it makes is drawn from that, not from the seed it is called with.
  Initializer seeded(uint64_t seed) const;

 private:
  std::string name_;
  Fill fill_;
};

// The dense weight's shape is [inputs, outputs]; of a longer shape all but the last two dimensions count as a receptive field.
LAMINA_API Initializer constant_value(double value);
// Uniform in +-sqrt(6 / (fan_in + fan_out)), and normal with deviation sqrt(2 / (fan_in + fan_out)), cut at two deviations.
// Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks".
LAMINA_API Initializer glorot_uniform();
LAMINA_API Initializer glorot_normal();
// Uniform in +-sqrt(6 / fan_in), and normal with deviation sqrt(2 / fan_in), cut at two deviations.
// He et al. 2015, "Delving Deep into Rectifiers".
LAMINA_API Initializer he_uniform();
LAMINA_API Initializer he_normal();
LAMINA_API Initializer random_uniform(double low = -0.05, double high = 0.05);
LAMINA_API Initializer random_normal(double mean = 0, double deviation = 0.05);
// gain * Q with orthonormal columns (rows, when there are fewer of them); the leading dimensions count as rows.
// Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks".
LAMINA_API Initializer orthogonal(double gain = 1);
// Mirrored orthogonal weights [inputs, outputs]: at the start a stack of ReLU layers computes an orthogonal linear map, so signals
// neither vanish nor explode at any depth. A mirrored side holds x as [relu(x), relu(-x)] and must be even.
//   mirror_in, mirror_out  [[Q, -Q], [-Q, Q]]   hidden layers
//   mirror_out only        [Q, -Q]              the first layer
//   mirror_in only         [[Q], [-Q]]          the last layer, linear in the mirrored input
// Balduzzi et al. 2017, "The Shattered Gradients Problem: If resnets are the answer, then what is the question?", section 4.
LAMINA_API Initializer looks_linear(bool mirror_in = true, bool mirror_out = true);

}  // namespace lamina::nn
