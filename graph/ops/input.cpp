// input() -> a parameter of the graph.
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_input(const ir::InferCall& call) {
  const TensorType& type = ir::attrs_of<ir::InputAttrs>(call.attrs).type;
  require_rank("input", type.shape);
  return {type};
}

}  // namespace

constinit const ir::OpDef def::input{
    .name = "input",
    .inputs = 0,
    .parse_attrs = ir::Attrs<ir::InputAttrs>::parse,
    .infer = infer_input,
    .vjp = [](const ir::VjpCall&) { return std::vector<Value>{}; },
    .no_batch = "vmap gives the mapped graph inputs of its own",
    .no_cpu = "the planner binds it",
    .no_cuda = "the planner binds it",
    .doc = "a parameter of the graph",
};

}  // namespace lamina::ops
