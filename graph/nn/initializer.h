// Initializer: computes a weight's initial value. Eager, on the host, in double precision; the same seed gives the same values on every
// machine.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
  // User-defined.
  Initializer(std::string name, Fill fill, std::map<std::string, double> parameters = {});

  const std::string& name() const { return name_; }
  // The named numbers it was constructed from, and its fixed seed.
  const std::map<std::string, double>& parameters() const { return parameters_; }
  const std::optional<uint64_t>& seed() const { return seed_; }
  // The values of one weight. Throws invalid_argument, beginning with the initializer's name, for an unsupported shape.
  std::vector<double> operator()(std::span<const int64_t> shape, uint64_t seed) const;
  // The same initializer with a fixed seed, which replaces the seed passed by the caller for every weight.
  Initializer seeded(uint64_t seed) const;

 private:
  std::string name_;
  Fill fill_;
  std::map<std::string, double> parameters_;
  std::optional<uint64_t> seed_;
};

// A dense weight's shape is [inputs, outputs]; in a longer shape all but the last two dimensions are the receptive field.
LAMINA_API Initializer constant_value(double value);
// Uniform in +-sqrt(6 / (fan_in + fan_out)); normal with standard deviation sqrt(2 / (fan_in + fan_out)), truncated at two. Glorot and
// Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks".
LAMINA_API Initializer glorot_uniform();
LAMINA_API Initializer glorot_normal();
// Uniform in +-sqrt(6 / fan_in); normal with standard deviation sqrt(2 / fan_in), truncated at two.
// He et al. 2015, "Delving Deep into Rectifiers".
LAMINA_API Initializer he_uniform();
LAMINA_API Initializer he_normal();
LAMINA_API Initializer random_uniform(double low = -0.05, double high = 0.05);
LAMINA_API Initializer random_normal(double mean = 0, double deviation = 0.05);
// gain * Q with orthonormal columns (rows, when there are fewer of them); the leading dimensions count as rows.
// Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks".
LAMINA_API Initializer orthogonal(double gain = 1);
// Mirrored orthogonal weights [inputs, outputs]: initially a stack of ReLU layers computes an orthogonal linear map, so signals neither
// vanish nor explode at any depth. A mirrored side represents x as [relu(x), relu(-x)] and must have an even size.
//   mirror_in, mirror_out  [[Q, -Q], [-Q, Q]]   hidden layers
//   mirror_out only        [Q, -Q]              the first layer
//   mirror_in only         [[Q], [-Q]]          the last layer, linear in the mirrored input
// Balduzzi et al. 2017, "The Shattered Gradients Problem: If resnets are the answer, then what is the question?", section 4.
LAMINA_API Initializer looks_linear(bool mirror_in = true, bool mirror_out = true);

}  // namespace lamina::nn
