// Activation: an elementwise function (or softmax), by name or user-defined.
#pragma once
#include <functional>
#include <string>

#include "graph/frontend/tensor.h"

namespace lamina::nn {

class LAMINA_API Activation {
 public:
  using Function = std::function<Tensor(const Operand&)>;

  Activation();  // linear: x itself
  // An activation of kernels/shared/elementwise_ops.inc ("leaky_relu" has slope 0.01), "linear", "softmax" or "log_softmax" (over the last
  // axis), "selu", "hard_sigmoid" or "exponential". Throws not_found with the nearest names.
  Activation(const char* name);
  Activation(const std::string& name);
  Activation(std::string name, Function function) : name_(std::move(name)), function_(std::move(function)) {}

  const std::string& name() const { return name_; }
  Tensor operator()(const Operand& x) const { return function_ ? function_(x) : x.resolve(); }

 private:
  std::string name_;
  Function function_;
};

}  // namespace lamina::nn
