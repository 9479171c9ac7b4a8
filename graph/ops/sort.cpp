// sort(x, axis, descending), argsort(x, axis, descending), top_k(x, k) along the last axis.
#include "kernels/sort.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

const SortAttrs& sort_attrs(const ir::AttrsBase& attrs) { return ir::attrs_of<SortAttrs>(attrs); }

template <const ir::OpDef& op>
std::vector<TensorType> infer_sort(const ir::InferCall& call) {
  axis_of(op.name, sort_attrs(call.attrs).axis, call.in[0]);
  return {{&op == &def::argsort ? DType::i64 : call.in[0].dtype, call.in[0].shape}};
}

// Zeros of the type with updates [P..., k] added at places [P..., k] along the last axis of x [P..., n].
Value put_back(Graph& g, Value updates, Value places, const Shape& shape) {
  const int last = int(shape.size()) - 1;
  return scatter_add(g, updates, places, shape, last, last);
}

// The gradient of each element goes back to its original position.
std::vector<Value> vjp_sort(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const TensorType type = g.type(call.inputs[0]);
  const int axis = axis_of("sort", sort_attrs(call.attrs).axis, type), last = int(type.rank()) - 1;
  const Value places = move_axis(g, argsort(g, call.inputs[0], axis, sort_attrs(call.attrs).descending), axis, last);
  const Value dy = move_axis(g, call.cotangents[0], axis, last);
  const Shape shape = g.type(dy).shape;
  return {move_axis(g, put_back(g, dy, places, shape), last, axis)};
}

template <const ir::OpDef& op>
std::vector<ir::Batched> batch_sort(const ir::BatchCall& call) {
  SortAttrs a = sort_attrs(call.attrs);
  if (a.axis >= 0) ++a.axis;
  return {{call.graph.add(op, ir::make_attrs(a), {call.inputs[0].value}), true}};
}

template <class F>
Kernel for_sortable(DType dtype, F&& make) {
  return dtype == DType::boolean ? make.template operator()<uint8_t>() : for_numeric(dtype, make);
}
template <On on>
Kernel kernel_sort(const ir::KernelRequest& request) {
  const int axis = axis_of("sort", sort_attrs(request.attrs).axis, request.in[0]);
  return for_sortable(request.in[0].dtype,
                      [&]<class T>() { return bind<LAMINA_ON(on, sort<T>)>(axis, sort_attrs(request.attrs).descending); });
}
template <On on>
Kernel kernel_argsort(const ir::KernelRequest& request) {
  const int axis = axis_of("argsort", sort_attrs(request.attrs).axis, request.in[0]);
  return for_sortable(request.in[0].dtype,
                      [&]<class T>() { return bind<LAMINA_ON(on, argsort<T>)>(axis, sort_attrs(request.attrs).descending); });
}

// --- top_k ---

std::vector<TensorType> infer_top_k(const ir::InferCall& call) {
  const TensorType& x = call.in[0];
  const int64_t k = ir::attrs_of<TopKAttrs>(call.attrs).k;
  const size_t axis = size_t(axis_of("top_k", -1, x));
  if (k < 0 || (x.shape[axis].known() && k > x.shape[axis].number()))
    throw Error(ErrorKind::invalid_argument, {.what = cat("top_k: the ", k, " largest of ", x),
                                              .where = "argument 'k'",
                                              .why = cat("the last axis has ", x.shape[axis], " elements"),
                                              .fix = cat("pass a number from 0 to ", x.shape[axis])});
  Shape shape = x.shape;
  shape[axis] = k;
  return {{x.dtype, shape}, {DType::i64, shape}};
}
std::vector<Value> vjp_top_k(const ir::VjpCall& call) {
  if (!call.cotangents[0].valid()) return {Value{}};
  return {put_back(call.graph, call.cotangents[0], call.results[1], call.graph.type(call.inputs[0]).shape)};
}
std::vector<ir::Batched> batch_top_k(const ir::BatchCall& call) {
  const Value values = top_k(call.graph, call.inputs[0].value, ir::attrs_of<TopKAttrs>(call.attrs).k);
  return {{values, true}, {{values.node, 1}, true}};
}
template <On on>
Kernel kernel_top_k(const ir::KernelRequest& request) {
  return for_sortable(request.in[0].dtype, []<class T>() { return bind<LAMINA_ON(on, top_k<T>)>(); });
}

std::optional<ir::RowsRule> rows_sort(const ir::RowsCall& call) { return rows_beside(call, sort_attrs(call.attrs).axis); }
std::optional<ir::RowsRule> rows_top_k(const ir::RowsCall& call) { return rows_beside(call, -1); }

}  // namespace

constinit const ir::OpDef def::sort{
    .name = "sort",
    .inputs = 1,
    .parse_attrs = ir::Attrs<SortAttrs>::parse,
    .infer = infer_sort<def::sort>,
    .vjp = vjp_sort,
    .batch = batch_sort<def::sort>,
    .rows = rows_sort,
    .cpu = kernel_sort<On::cpu>,
    .cuda = kernel_sort<On::gpu>,
    .strided = true,
    .doc = "The elements in ascending order along an axis, or descending; NaN is larger than every number",
};

constinit const ir::OpDef def::argsort{
    .name = "argsort",
    .inputs = 1,
    .parse_attrs = ir::Attrs<SortAttrs>::parse,
    .infer = infer_sort<def::argsort>,
    .batch = batch_sort<def::argsort>,
    .rows = rows_sort,
    .cpu = kernel_argsort<On::cpu>,
    .cuda = kernel_argsort<On::gpu>,
    .strided = true,
    .no_vjp = "an index does not change smoothly",
    .doc = "The int64 places along an axis that put the elements in order; equal elements keep theirs",
};

constinit const ir::OpDef def::top_k{
    .name = "top_k",
    .inputs = 1,
    .parse_attrs = ir::Attrs<TopKAttrs>::parse,
    .infer = infer_top_k,
    .vjp = vjp_top_k,
    .batch = batch_top_k,
    .rows = rows_top_k,
    .cpu = kernel_top_k<On::cpu>,
    .cuda = kernel_top_k<On::gpu>,
    .strided = true,
    .doc =
        "(values, places): the k largest elements along an axis, the largest first, and their int64 places; of equal ones the "
        "first",
};

}  // namespace lamina::ops
