// gather(x, indices, axis, batch_axes): slices of x along an axis; the indices' shape replaces the axis.
// scatter_add(updates, indices, shape, axis, batch_axes): its gradient; zeros of `shape` with the updates added where gather read.
//
//   x [P..., A..., L, B...]   indices [P..., I...]   result and updates [P..., A..., I..., B...]   with batch_axes = the number of P
#include "kernels/gather.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

// The axis from the front, and the shape of gather's result.
struct Plan {
  size_t axis = 0, batch = 0;
  Shape picked;
};

Plan plan(const char* op, int64_t axis, int64_t batch_axes, const TensorType& x, const TensorType& indices) {
  Plan p;
  p.axis = size_t(axis_of(op, axis, x));
  require_integer(op, "indices", indices);
  if (batch_axes < 0 || batch_axes > int64_t(p.axis) || batch_axes > int64_t(indices.rank()))
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(op, ": batch_axes ", batch_axes, " is out of range for ", x, " and indices ", indices),
                 .where = "argument 'batch_axes'",
                 .why = "the shared axes come before the axis, and the indices have them",
                 .fix = cat("pass 0 to ", std::min(p.axis, indices.rank()))});
  p.batch = size_t(batch_axes);
  if (!std::equal(x.shape.begin(), x.shape.begin() + batch_axes, indices.shape.begin()))
    throw does_not_fit(op, x, indices, cat("the first ", batch_axes, " dimensions are shared, so they must be equal"), "");
  p.picked.assign(x.shape.begin(), x.shape.begin() + int64_t(p.axis));
  p.picked.insert(p.picked.end(), indices.shape.begin() + batch_axes, indices.shape.end());
  p.picked.insert(p.picked.end(), x.shape.begin() + int64_t(p.axis) + 1, x.shape.end());
  require_rank(op, p.picked);
  return p;
}

kernels::cpu::GatherSizes sizes(const Plan& p, const TensorType& x, const TensorType& indices) {
  auto product = [](const Shape& shape, size_t from, size_t to) {
    return size_of(Shape(shape.begin() + int64_t(from), shape.begin() + int64_t(to))).number();
  };
  return {.batch = product(x.shape, 0, p.batch),
          .outer = product(x.shape, p.batch, p.axis),
          .length = x.shape[p.axis].number(),
          .inner = product(x.shape, p.axis + 1, x.rank()),
          .count = product(indices.shape, p.batch, indices.rank())};
}

Plan plan_gather(const ir::AttrsBase& attrs, const TensorType& x, const TensorType& indices) {
  const auto& a = ir::attrs_of<GatherAttrs>(attrs);
  return plan("gather", a.axis, a.batch_axes, x, indices);
}
Plan plan_scatter_add(const ir::AttrsBase& attrs, const TensorType& updates, const TensorType& indices) {
  const auto& a = ir::attrs_of<ScatterAttrs>(attrs);
  return plan("scatter_add", a.axis, a.batch_axes, {updates.dtype, a.shape}, indices);
}

std::vector<TensorType> infer_gather(const ir::InferCall& call) {
  return {{call.in[0].dtype, plan_gather(call.attrs, call.in[0], call.in[1]).picked}};
}

std::vector<TensorType> infer_scatter_add(const ir::InferCall& call) {
  const TensorType& updates = call.in[0];
  const Shape& shape = ir::attrs_of<ScatterAttrs>(call.attrs).shape;
  require_numeric("scatter_add", updates);
  require_rank("scatter_add", shape);
  Plan p = plan_scatter_add(call.attrs, updates, call.in[1]);
  if (updates.shape != p.picked)
    throw does_not_fit("scatter_add", updates, call.in[1],
                       cat("updates for the shape [", text(shape), "] must have the shape [", text(p.picked), "]"), "");
  return {{updates.dtype, shape}};
}

std::vector<Value> vjp_gather(const ir::VjpCall& call) {
  const auto& a = ir::attrs_of<GatherAttrs>(call.attrs);
  return {scatter_add(call.graph, call.cotangents[0], call.inputs[1], call.graph.type(call.inputs[0]).shape, a.axis, a.batch_axes),
          Value{}};
}
std::vector<Value> vjp_scatter_add(const ir::VjpCall& call) {
  const auto& a = ir::attrs_of<ScatterAttrs>(call.attrs);
  return {gather(call.graph, call.cotangents[0], call.inputs[1], a.axis, a.batch_axes), Value{}};
}

// Only x batched: one more axis in front. Both: one more shared axis. Only indices: their model axis appears at the gather axis and is
// moved to the front; if there are shared axes already, x is repeated.
std::vector<ir::Batched> batch_gather(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const ir::Batched &x = call.inputs[0], &indices = call.inputs[1];
  const auto& a = ir::attrs_of<GatherAttrs>(call.attrs);
  int axis = a.axis < 0 ? a.axis + int(g.type(x.value).rank()) - int(x.batched) : a.axis;
  if (!indices.batched && a.batch_axes == 0) return {{gather(g, x.value, indices.value, axis + 1), true}};
  if (!x.batched && a.batch_axes == 0) return {{move_axis(g, gather(g, x.value, indices.value, axis), axis, 0), true}};
  return {{gather(g, with_model_axis(g, x, call.size), with_model_axis(g, indices, call.size), axis + 1, a.batch_axes + 1), true}};
}
std::vector<ir::Batched> batch_scatter_add(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const ir::Batched &updates = call.inputs[0], &indices = call.inputs[1];
  const auto& a = ir::attrs_of<ScatterAttrs>(call.attrs);
  int axis = a.axis < 0 ? a.axis + int(a.shape.size()) : a.axis;
  Shape shape = with_model_axis(call.size, a.shape);
  if (!indices.batched && a.batch_axes == 0) return {{scatter_add(g, updates.value, indices.value, std::move(shape), axis + 1), true}};
  return {{scatter_add(g, with_model_axis(g, updates, call.size), with_model_axis(g, indices, call.size), std::move(shape), axis + 1,
                       a.batch_axes + 1),
           true}};
}

template <On on>
Kernel kernel_gather(const ir::KernelRequest& request) {
  auto s = sizes(plan_gather(request.attrs, request.in[0], request.in[1]), request.in[0], request.in[1]);
  return for_width(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, gather<T>)>(s); });
}
template <On on>
Kernel kernel_scatter_add(const ir::KernelRequest& request) {
  auto s = sizes(plan_scatter_add(request.attrs, request.in[0], request.in[1]), request.out[0], request.in[1]);
  return for_numeric(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, scatter_add<T>)>(s); });
}

// The axis of gather's result, and of scatter_add's updates, that an axis of x or of the indices becomes; -1: the gathered axis itself.
int picked_axis_of_x(int axis, int gathered, int batch_axes, int indices_rank) {
  return axis < gathered ? axis : axis == gathered ? -1 : axis - 1 + indices_rank - batch_axes;
}
std::optional<ir::RowsRule> rows_gather(const ir::RowsCall& call) {
  const auto& a = ir::attrs_of<GatherAttrs>(call.attrs);
  const int axis = axis_of("gather", a.axis, call.in[0]);
  const ir::Cut x = call.cuts[0], indices = call.cuts[1];
  if (!x.whole()) {
    const int out = picked_axis_of_x(x.axis, axis, a.batch_axes, int(call.in[1].rank()));
    if (out >= 0) return ir::RowsRule{.in = {x, x.axis < a.batch_axes ? x : ir::Cut{}}, .out = {{out, x.each}}};
  }
  if (indices.whole()) return {};
  if (indices.axis < a.batch_axes) return ir::RowsRule{.in = {indices, indices}, .out = {indices}};
  return ir::RowsRule{.in = {{}, indices}, .out = {{axis + indices.axis - a.batch_axes, indices.each}}};
}
std::optional<ir::RowsRule> rows_scatter_add(const ir::RowsCall& call) {
  const auto& a = ir::attrs_of<ScatterAttrs>(call.attrs);
  const int axis = axis_of("scatter_add", a.axis, call.out[0]), indices_rank = int(call.in[1].rank());
  ir::Cut updates = call.cuts[0];
  if (updates.whole() && !call.cuts[1].whole())
    updates = {call.cuts[1].axis < a.batch_axes ? call.cuts[1].axis : axis + call.cuts[1].axis - a.batch_axes, call.cuts[1].each};
  if (updates.whole()) return {};
  if (updates.axis >= axis && updates.axis < axis + indices_rank - a.batch_axes)  // rows are added up
    return ir::RowsRule{
        .in = {updates, {updates.axis - axis + a.batch_axes, updates.each}}, .out = {{}}, .leaves = ir::RowsRule::Leaves::added};
  const ir::Cut out{updates.axis < axis ? updates.axis : updates.axis + 1 - indices_rank + a.batch_axes, updates.each};
  return ir::RowsRule{.in = {updates, updates.axis < a.batch_axes ? updates : ir::Cut{}},
                      .out = {out},
                      .attrs = attrs_with_shape<ScatterAttrs>(call.attrs, out)};
}

}  // namespace

constinit const ir::OpDef def::gather{
    .name = "gather",
    .inputs = 2,
    .parse_attrs = ir::Attrs<GatherAttrs>::parse,
    .infer = infer_gather,
    .vjp = vjp_gather,
    .batch = batch_gather,
    .rows = rows_gather,
    .cpu = kernel_gather<On::cpu>,
    .cuda = kernel_gather<On::gpu>,
    .can_fail = true,
    .doc =
        "The parts of x along an axis that an integer tensor names; x and indices may share their first batch_axes axes. Raises "
        "IndexOutOfRange.",
};

constinit const ir::OpDef def::scatter_add{
    .name = "scatter_add",
    .inputs = 2,
    .parse_attrs = ir::Attrs<ScatterAttrs>::parse,
    .infer = infer_scatter_add,
    .vjp = vjp_scatter_add,
    .batch = batch_scatter_add,
    .rows = rows_scatter_add,
    .cpu = kernel_scatter_add<On::cpu>,
    .cuda = kernel_scatter_add<On::gpu>,
    .can_fail = true,
    .doc = "Zeros of a shape with the updates added along an axis at integer indices, in their order.",
};

}  // namespace lamina::ops
