// concat(parts..., axis): joins the parts along an axis.
#include "kernels/concat.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"
#include "graph/ops/section_step.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_concat(const ir::InferCall& call) {
  if (call.in.empty())
    throw Error(ErrorKind::invalid_argument, {.what = "concat: there are no tensors to join",
                                              .where = "",
                                              .why = "the result's dtype and shape follow from them",
                                              .fix = "pass at least one"});
  TensorType out = call.in[0];
  size_t axis = size_t(axis_of("concat", ir::attrs_of<AxisAttrs>(call.attrs).axis, out));
  for (const TensorType& part : call.in.subspan(1)) {
    require_same_dtype("concat", call.in[0], part);
    bool fits = part.rank() == out.rank();
    for (size_t i = 0; fits && i < out.rank(); ++i) fits = i == axis || part.shape[i] == out.shape[i];
    if (!fits)
      throw does_not_fit("concat", call.in[0], part, cat("all dimensions but axis ", axis, " must be equal"),
                         "reshape or slice one of them");
    out.shape[axis] = out.shape[axis] + part.shape[axis];
  }
  return {out};
}

// Each part gets its slice of the gradient.
std::vector<Value> vjp_concat(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const TensorType whole = g.type(call.results[0]);
  size_t axis = size_t(axis_of("concat", ir::attrs_of<AxisAttrs>(call.attrs).axis, whole));
  std::vector<Value> out;
  Dim first(0);
  for (Value part : call.inputs) {
    SliceAttrs attrs{std::vector<int64_t>(whole.rank(), 0), {}, std::vector<int64_t>(whole.rank(), 1), {}, g.type(part).shape};
    if (first.known()) {
      attrs.begin[axis] = first.number();
    } else {
      attrs.offset.assign(whole.rank(), Dim(0));
      attrs.offset[axis] = first;
    }
    first = first + attrs.size[axis];
    out.push_back(g.add(def::slice, ir::make_attrs(std::move(attrs)), {call.cotangents[0]}));
  }
  return out;
}

std::vector<ir::Batched> batch_concat(const ir::BatchCall& call) {
  int axis = ir::attrs_of<AxisAttrs>(call.attrs).axis;
  return {{concat(call.graph, with_model_axes(call.graph, call.inputs, call.size), axis < 0 ? axis : axis + 1), true}};
}

template <On on>
Kernel kernel_concat(const ir::KernelRequest& request) {
  return bind<LAMINA_ON(on, concat)>(axis_of("concat", ir::attrs_of<AxisAttrs>(request.attrs).axis, request.out[0]));
}

bool step_concat(const ir::KernelRequest& request, ir::SectionStep& step) {
  const int axis = axis_of("concat", ir::attrs_of<AxisAttrs>(request.attrs).axis, request.out[0]);
  const View whole = contiguous_view(nullptr, request.out[0]);
  std::vector<ir::SectionStep::Part> parts;
  int64_t first = 0;
  for (const TensorType& in : request.in) {
    parts.push_back({whole, first * whole.strides[axis]});
    parts.back().view.shape[axis] = in.shape[size_t(axis)].number();
    first += in.shape[size_t(axis)].number();
  }
  return set_parts(step, std::move(parts), request.out[0]);
}

std::optional<ir::RowsRule> rows_concat(const ir::RowsCall& call) {
  ir::Cut cut = call.wanted;
  for (const ir::Cut& c : call.cuts)
    if (!c.whole()) cut = c;
  if (cut.whole() || cut.axis == axis_of("concat", ir::attrs_of<AxisAttrs>(call.attrs).axis, call.out[0])) return {};
  return ir::RowsRule{.in = std::vector<ir::Cut>(call.in.size(), cut), .out = {cut}};
}

}  // namespace

constinit const ir::OpDef def::concat{
    .name = "concat",
    .inputs = -1,
    .parse_attrs = ir::Attrs<AxisAttrs>::parse,
    .infer = infer_concat,
    .vjp = vjp_concat,
    .batch = batch_concat,
    .rows = rows_concat,
    .cpu = kernel_concat<On::cpu>,
    .cuda = kernel_concat<On::gpu>,
    .section = step_concat,
    .strided = true,
    .doc = "The parts one after another along an axis",
};

}  // namespace lamina::ops
