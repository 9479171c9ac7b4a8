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
  // "linear", "relu", "tanh", "sigmoid", "softmax" (over the last axis), "log_softmax", "softplus", "gelu", "silu".
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

// log(1 + exp(x)), to the dtype's precision for every x.
LAMINA_API Tensor softplus(const Operand& x);
// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2: the tanh form of Hendrycks and Gimpel 2016, within 5e-4 of the one with erf.
LAMINA_API Tensor gelu(const Operand& x);
// x sigmoid(x).
LAMINA_API Tensor silu(const Operand& x);

}  // namespace lamina::nn
