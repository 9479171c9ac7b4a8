#include "graph/nn/activation.h"

#include <utility>
#include <vector>

#include "graph/functions/op_functions.h"

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
      {"softplus", [](const Operand& x) { return softplus(x); }},
      {"gelu", [](const Operand& x) { return gelu(x); }},
      {"gelu_tanh", [](const Operand& x) { return gelu(x, true); }},
      {"silu", [](const Operand& x) { return silu(x); }},
      {"elu", [](const Operand& x) { return elu(x); }},
      {"selu", [](const Operand& x) { return selu(x); }},
      {"leaky_relu", [](const Operand& x) { return leaky_relu(x); }},
      {"hard_sigmoid", [](const Operand& x) { return hard_sigmoid(x); }},
      {"exponential", [](const Operand& x) { return exp(x); }},
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

}  // namespace lamina::nn
