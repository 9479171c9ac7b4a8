#include "graph/nn/activation.h"

#include <array>
#include <utility>
#include <vector>

#include "graph/frontend/eager.h"
#include "graph/functions/op_functions.h"
#include "graph/ops/ops.h"

namespace lamina::nn {
namespace {

template <kernels::ScalarOp op>
Tensor activate(const ir::OpDef& def, const Operand& x) {
  const bool floating = kernels::domain(op) == kernels::Domain::floating;
  return apply_one(def, nullptr, std::array{floating ? resolve_floating(x) : x.resolve()}, x.at());
}

const std::vector<std::pair<std::string, Activation::Function>>& named_activations() {
  static const std::vector<std::pair<std::string, Activation::Function>>& all =
      *new std::vector<std::pair<std::string, Activation::Function>>{
          {"linear", nullptr},
          {"softmax", [](const Operand& x) { return softmax(x, -1); }},
          {"log_softmax", [](const Operand& x) { return log_softmax(x, -1); }},
          {"selu", [](const Operand& x) { return selu(x); }},
          {"hard_sigmoid", [](const Operand& x) { return hard_sigmoid(x); }},
          {"exponential", [](const Operand& x) { return exp(x); }},
#define LAMINA_ACTIVATION_plain(name) activate<kernels::ScalarOp::name>(ops::def::name, x)
#define LAMINA_ACTIVATION_alpha(name) name(x)
#define ACTIVATION(name, slope, parameter) {#name, [](const Operand& x) { return LAMINA_ACTIVATION_##parameter(name); }},
#include "kernels/shared/elementwise_ops.inc"
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
Activation::Activation(const char* name) : Activation(find_activation(name ? name : "")) {}
Activation::Activation(const std::string& name) : Activation(find_activation(name)) {}

}  // namespace lamina::nn
