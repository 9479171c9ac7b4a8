#include "graph/nn/activation.h"

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "graph/frontend/op_functions.h"

namespace lamina::nn {
namespace {

const std::vector<std::pair<std::string, Activation::Function>>& named_activations() {
  static const std::vector<std::pair<std::string, Activation::Function>> all{
      {"linear", nullptr},
      {"relu", [](const Operand& x) { return relu(x); }},
      {"tanh", [](const Operand& x) { return tanh(x); }},
      {"sigmoid", [](const Operand& x) { return sigmoid(x); }},
      {"softmax", [](const Operand& x) { return softmax(x, -1); }},
      {"log_softmax", [](const Operand& x) { return log_softmax(x, -1); }},
      {"softplus", softplus},
      {"gelu", gelu},
      {"silu", silu},
  };
  return all;
}

Activation find_activation(const std::string& name) {
  std::vector<std::string> names;
  for (auto& [known, function] : named_activations()) {
    if (known == name) return {known, function};
    names.push_back(known);
  }
  throw unknown_name("activation", name, names);
}

}  // namespace

Activation::Activation() : name_("linear") {}
Activation::Activation(const char* name) : Activation(find_activation(name)) {}
Activation::Activation(const std::string& name) : Activation(find_activation(name)) {}

// log(1 + e) of e = exp(-|x|) in (0, 1] as 2 atanh(e / (2 + e)), whose series converges fast and, unlike log(1 + e), keeps its digits when e is
// small. (x + |x|) / 2 is relu with the derivative 1/2 at 0.
Tensor softplus(const Operand& operand) {
  const CallSite at = operand.at();
  const Tensor x = operand.resolve();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const auto n = [at](double v) { return Operand(v, at); };
  const Tensor size = abs(o(x)), e = exp(o(neg(o(size)))), s = div(o(e), o(add(o(e), n(2)))), s2 = square(o(s));
  const int terms = x.dtype() == DType::f64 ? 17 : 8;  // (1/3)^(2 terms) is below the precision
  Tensor series = mul(o(s2), n(1.0 / (2 * terms + 1)));
  for (int k = terms - 1; k > 0; --k) series = mul(o(s2), o(add(o(series), n(1.0 / (2 * k + 1)))));
  const Tensor log1p = mul(n(2), o(mul(o(s), o(add(o(series), n(1))))));
  return add(o(mul(n(0.5), o(add(o(x), o(size))))), o(log1p));
}

Tensor gelu(const Operand& operand) {
  const CallSite at = operand.at();
  const Tensor x = operand.resolve();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const auto n = [at](double v) { return Operand(v, at); };
  const Tensor cube = mul(o(square(o(x))), o(x));
  const Tensor inner = mul(n(std::sqrt(2 / std::numbers::pi)), o(add(o(x), o(mul(n(0.044715), o(cube))))));
  return mul(o(mul(n(0.5), o(x))), o(add(o(tanh(o(inner))), n(1))));
}

Tensor silu(const Operand& operand) {
  const Tensor x = operand.resolve();
  return mul(Operand(x, operand.at()), Operand(sigmoid(Operand(x, operand.at())), operand.at()));
}

}  // namespace lamina::nn
