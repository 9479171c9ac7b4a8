// Activation: an elementwise function (softmax aside) by name, or your own.
#pragma once
#include <functional>
#include <string>

#include "graph/frontend/tensor.h"

namespace lamina::nn {

class LAMINA_API Activation {
 public:
  using Function = std::function<Tensor(const Operand&)>;

  Activation();  // linear: x itself
  // "linear", "relu", "tanh", "sigmoid", "softmax" (over the last axis), "log_softmax", "softplus", "gelu" (with erf), "gelu_tanh", "silu",
  // "elu", "selu", "leaky_relu" (slope 0.01), "hard_sigmoid", "exponential".
  // Throws not_found with the nearest names.
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
