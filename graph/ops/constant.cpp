// constant() -> a value known when the graph is built.
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_constant(const ir::InferCall& call) {
  const TensorType& type = ir::attrs_of<ir::ConstantAttrs>(call.attrs).value.type;
  require_rank("constant", type.shape);
  return {type};
}

}  // namespace

constinit const ir::OpDef def::constant{
    .name = "constant",
    .inputs = 0,
    .parse_attrs = ir::Attrs<ir::ConstantAttrs>::parse,
    .infer = infer_constant,
    .vjp = [](const ir::VjpCall&) { return std::vector<Value>{}; },
    .no_batch = "it has no inputs, so it is the same for every model",
    .no_cpu = "the planner binds it",
    .no_cuda = "the planner binds it",
    .doc = "a value known when the graph is built",
};

}  // namespace lamina::ops
