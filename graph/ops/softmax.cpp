// softmax(x, axis): exp(x) / sum(exp(x)) along one axis; log_softmax: its logarithm.
#include "kernels/softmax.h"

#include <array>

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"
#include "graph/ops/section_step.h"
#include "graph/ops/vjp_in_f32.h"

namespace lamina::ops {
namespace {

int softmax_axis(const ir::OpDef& def, const ir::AttrsBase& attrs, const TensorType& in) {
  return ops::axis_of(def.name, ir::attrs_of<AxisAttrs>(attrs).axis, in);
}

template <const ir::OpDef& def>
std::vector<TensorType> infer_softmax(const ir::InferCall& call) {
  require_floating(def.name, call.in[0]);
  softmax_axis(def, call.attrs, call.in[0]);
  return {call.in[0]};
}

// One more leading axis: the same axis counted from the end.
template <const ir::OpDef& def>
std::vector<ir::Batched> batch_softmax(const ir::BatchCall& call) {
  const int axis = ir::attrs_of<AxisAttrs>(call.attrs).axis;
  return {{call.graph.add(def, ir::make_attrs(AxisAttrs{axis < 0 ? axis : axis + 1}), {call.inputs[0].value}), true}};
}

template <On on, const ir::OpDef& def>
Kernel kernel_softmax(const ir::KernelRequest& request) {
  const int axis = softmax_axis(def, request.attrs, request.in[0]);
  return for_floating(request.in[0].dtype, [=]<class T>() {
    if constexpr (&def == &def::softmax)
      return bind<LAMINA_ON(on, softmax<T>)>(axis);
    else
      return bind<LAMINA_ON(on, log_softmax<T>)>(axis);
  });
}

template <section::StepKind kind, const ir::OpDef& def>
bool step_softmax(const ir::KernelRequest& request, ir::SectionStep& out) {
  const TensorType& x = request.in[0];
  if (!(is_section_matrix(x) || is_section_stack(x)) || softmax_axis(def, request.attrs, x) != int(x.rank()) - 1) return false;
  set_step(out, kind, section::Partition::rows, request.in[0], {section::Broadcast::full}, {section::Broadcast::full});
  if (size_of(request.in[0].shape).known()) out.flops = 16.0 * double(size_of(request.in[0].shape).number());  // an exponential each
  if (x.rank() == 3) set_models(out, request, std::array<size_t, 2>{2, 2});
  return true;
}

// dx = y * (dy - sum(y * dy))
std::vector<Value> vjp_softmax(const ir::VjpCall& call) {
  Graph& g = call.graph;
  Value y = call.results[0], dy = call.cotangents[0];
  return {mul(g, y, sub(g, dy, sum(g, mul(g, y, dy), {softmax_axis(def::softmax, call.attrs, g.type(y))}, true)))};
}
// dx = dy - exp(y) * sum(dy)
std::vector<Value> log_vjp(const ir::VjpCall& call) {
  Graph& g = call.graph;
  Value y = call.results[0], dy = call.cotangents[0];
  return {sub(g, dy, mul(g, exp(g, y), sum(g, dy, {softmax_axis(def::log_softmax, call.attrs, g.type(y))}, true)))};
}

std::vector<Value> decompose_softmax(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  int64_t axis = softmax_axis(def::softmax, attrs, g.type(in[0]));
  Value e = exp(g, sub(g, in[0], max(g, in[0], {axis}, true)));
  return {div(g, e, sum(g, e, {axis}, true))};
}
std::vector<Value> log_decompose(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  int64_t axis = softmax_axis(def::log_softmax, attrs, g.type(in[0]));
  Value shifted = sub(g, in[0], max(g, in[0], {axis}, true));
  return {sub(g, shifted, log(g, sum(g, exp(g, shifted), {axis}, true)))};
}

std::optional<ir::RowsRule> rows_softmax(const ir::RowsCall& call) { return rows_beside(call, ir::attrs_of<AxisAttrs>(call.attrs).axis); }

}  // namespace

#define LAMINA_SOFTMAX(op, gradient, parts, text)              \
  constinit const ir::OpDef def::op{                           \
      .name = #op,                                             \
      .inputs = 1,                                             \
      .parse_attrs = ir::Attrs<AxisAttrs>::parse,              \
      .infer = infer_softmax<def::op>,                         \
      .vjp = vjp_in_f32<gradient, def::op>,                    \
      .batch = batch_softmax<def::op>,                         \
      .rows = rows_softmax,                                    \
      .cpu = kernel_softmax<On::cpu, def::op>,                 \
      .cuda = kernel_softmax<On::gpu, def::op>,                \
      .section = step_softmax<section::StepKind::op, def::op>, \
      .decompose = parts,                                      \
      .partition = section::Partition::rows,                   \
      .doc = text,                                             \
  };
LAMINA_SOFTMAX(softmax, vjp_softmax, decompose_softmax, "exp(x) / sum(exp(x)) along one axis")
LAMINA_SOFTMAX(log_softmax, log_vjp, log_decompose, "x - log(sum(exp(x))) along one axis")

}  // namespace lamina::ops
