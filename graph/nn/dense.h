// Dense: activation(x W + b).
#pragma once
#include "graph/nn/activation.h"
#include "graph/nn/layer.h"
#include "graph/nn/weight.h"

namespace lamina::nn {

struct DenseOptions {
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  DType dtype = DType::f32;  // of the weights; floating inputs are converted to it
  std::string name = "dense";
};

// x [..., inputs] -> [..., units]; W [inputs, units], b [units]. Throws invalid_argument unless units is positive and x has at least two
// dimensions, the last known; type when x is not floating point.
class LAMINA_API Dense : public Layer {
 public:
  explicit Dense(int64_t units, DenseOptions options = {});
  Dense(int64_t units, Activation activation) : Dense(units, DenseOptions{.activation = std::move(activation)}) {}
  Dense(int64_t units, const char* activation) : Dense(units, Activation(activation)) {}

  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;

  int64_t units() const { return units_; }
  const DenseOptions& options() const { return options_; }
  const Variable& kernel() const;  // throws state before the first call
  const std::optional<Variable>& bias() const { return bias_.if_made(); }

 private:
  int64_t units_;
  DenseOptions options_;
  Weight kernel_, bias_;
};

}  // namespace lamina::nn
