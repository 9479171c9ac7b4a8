// log_softmax(x, axis): x - log(sum(exp(x))) along one axis.
#include "kernels/softmax.h"

#include <array>

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/section_step.h"
#include "graph/ops/vjp_in_f32.h"

namespace lamina::ops {
namespace {

int axis_of(const ir::AttrsBase& attrs, const TensorType& in) {
  return ops::axis_of("log_softmax", ir::attrs_of<AxisAttrs>(attrs).axis, in);
}

std::vector<TensorType> infer(const ir::InferCall& call) {
  require_floating("log_softmax", call.in[0]);
  axis_of(call.attrs, call.in[0]);
  return {call.in[0]};
}

// dx = dy - exp(y) * sum(dy)
std::vector<Value> vjp(const ir::VjpCall& call) {
  Graph& g = call.graph;
  Value y = call.results[0], dy = call.cotangents[0];
  return {sub(g, dy, mul(g, exp(g, y), sum(g, dy, {axis_of(call.attrs, g.type(y))}, true)))};
}

std::vector<Value> decompose(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  int64_t axis = axis_of(attrs, g.type(in[0]));
  Value shifted = sub(g, in[0], max(g, in[0], {axis}, true));
  return {sub(g, shifted, log(g, sum(g, exp(g, shifted), {axis}, true)))};
}

std::vector<ir::Batched> batch(const ir::BatchCall& call) {
  int axis = ir::attrs_of<AxisAttrs>(call.attrs).axis;
  return {{log_softmax(call.graph, call.inputs[0].value, axis < 0 ? axis : axis + 1), true}};
}

template <On on>
Kernel kernel(const ir::KernelRequest& request) {
  int axis = axis_of(request.attrs, request.in[0]);
  return for_floating(request.in[0].dtype, [=]<class T>() { return bind<LAMINA_ON(on, log_softmax<T>)>(axis); });
}

bool section_step(const ir::KernelRequest& request, ir::SectionStep& out) {
  const TensorType& x = request.in[0];
  if (!(is_section_matrix(x) || is_section_stack(x)) || axis_of(request.attrs, x) != int(x.rank()) - 1) return false;
  set_step(out, section::StepKind::log_softmax, section::Partition::rows, request.in[0], {section::Broadcast::full},
           {section::Broadcast::full});
  if (x.rank() == 3) set_models(out, request, std::array<size_t, 2>{2, 2});
  return true;
}

}  // namespace

constinit const ir::OpDef def::log_softmax{
    .name = "log_softmax",
    .inputs = 1,
    .parse_attrs = ir::Attrs<AxisAttrs>::parse,
    .infer = infer,
    .vjp = vjp_in_f32<vjp, def::log_softmax>,
    .batch = batch,
    .cpu = kernel<On::cpu>,
    .cuda = kernel<On::gpu>,
    .section = section_step,
    .decompose = decompose,
    .partition = section::Partition::rows,
    .doc = "x - log(sum(exp(x))) along one axis",
};

}  // namespace lamina::ops
