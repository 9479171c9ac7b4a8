// scatter(updates, indices, x, mode, batch_axes): x with updates written, added, multiplied ... at integer indices along one axis.
//
//   x [P..., L, B...]   indices [P..., I...]   updates [P..., I..., B...]   with batch_axes = the number of P
#include "kernels/scatter.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"

namespace lamina::kernels {

constexpr const char* kModes[] = {"set", "add", "mul", "min", "max"};
std::string attr_text(ScatterMode v) { return kModes[size_t(v)]; }
void parse_attr(std::string_view text, ScatterMode& v) {
  for (size_t i = 0; i < std::size(kModes); ++i)
    if (text == kModes[i]) return void(v = ScatterMode(i));
  throw Error(ErrorKind::not_found, {.what = cat("there is no way to scatter called '", text, "'"),
                                     .where = "",
                                     .why = "there are set, add, mul, min and max",
                                     .fix = ""});
}

}  // namespace lamina::kernels

namespace lamina::ops {
namespace {

const ScatterIntoAttrs& scatter_attrs(const ir::AttrsBase& attrs) { return ir::attrs_of<ScatterIntoAttrs>(attrs); }

std::vector<TensorType> infer_scatter(const ir::InferCall& call) {
  const auto& a = scatter_attrs(call.attrs);
  const TensorType &updates = call.in[0], &indices = call.in[1], &x = call.in[2];
  require_same_dtype("scatter", updates, x);
  require_integer("scatter", "indices", indices);
  if (a.mode != ScatterMode::set) require_numeric("scatter", x);
  if (a.batch_axes < 0 || a.batch_axes >= int64_t(x.rank()) || a.batch_axes > int64_t(indices.rank()) ||
      !std::equal(x.shape.begin(), x.shape.begin() + a.batch_axes, indices.shape.begin()))
    throw does_not_fit("scatter", x, indices, cat("they share the first ", a.batch_axes, " dimensions, and x has one more at least"), "");
  Shape picked = indices.shape;
  picked.insert(picked.end(), x.shape.begin() + a.batch_axes + 1, x.shape.end());
  if (updates.shape != picked)
    throw does_not_fit("scatter", updates, indices, cat("updates of ", x, " at these indices have the shape [", text(picked), "]"), "");
  require_rank("scatter", picked);
  return {x};
}

Value rows(Graph& g, Value dy, Value indices, int batch_axes) { return gather(g, dy, indices, batch_axes, batch_axes); }

// set: only the last update of a position gets its gradient. To find it, the updates' numbers are scattered in the same way.
std::vector<Value> vjp_set(const ir::VjpCall& call, int batch_axes) {
  Graph& g = call.graph;
  const Value updates = call.inputs[0], indices = call.inputs[1], dy = call.cotangents[0];
  const TensorType type = g.type(dy), picked = g.type(updates), at = g.type(indices);
  const Value dx = scatter(g, full(g, picked, 0), indices, dy, ScatterMode::set, batch_axes);
  Shape places(type.shape.begin(), type.shape.begin() + batch_axes + 1);
  const Value number = reshape(g, iota(g, {DType::i64, {size_of(at.shape)}}, 0), at.shape);
  const Value last = scatter(g, number, indices, full(g, {DType::i64, places}, -1), ScatterMode::set, batch_axes);
  Value wins = equal(g, gather(g, last, indices, batch_axes, batch_axes), number);
  Shape widened = at.shape;
  widened.resize(picked.rank(), Dim(1));
  wins = reshape(g, wins, widened);
  return {where(g, wins, rows(g, dy, indices, batch_axes), full(g, {type.dtype, {}}, 0)), Value{}, dx};
}

// mul: dy times all other factors of the position. Zero factors are counted, so that a single one still has a gradient.
std::vector<Value> vjp_mul(const ir::VjpCall& call, int batch_axes) {
  Graph& g = call.graph;
  const Value updates = call.inputs[0], indices = call.inputs[1], x = call.inputs[2], dy = call.cotangents[0];
  const TensorType type = g.type(x), picked = g.type(updates);
  const Value one = scalar(g, type.dtype, 1), zero = scalar(g, type.dtype, 0);
  const Value all = scatter(g, updates, indices, full(g, type, 1), ScatterMode::mul, batch_axes);  // without x
  const Value is_zero = equal(g, updates, zero);
  const Value others = where(g, is_zero, one, updates);
  const Value zeros = scatter(g, where(g, is_zero, full(g, picked, 1), zero), indices, full(g, type, 0), ScatterMode::add, batch_axes);
  const Value product = mul(g, mul(g, dy, x), scatter(g, others, indices, full(g, type, 1), ScatterMode::mul, batch_axes));
  const Value of_zero = rows(g, where(g, equal(g, zeros, one), product, zero), indices, batch_axes);
  const Value of_others = div(g, rows(g, where(g, equal(g, zeros, zero), product, zero), indices, batch_axes), others);
  return {where(g, is_zero, of_zero, of_others), Value{}, mul(g, dy, all)};
}

// min, max: all elements equal to the result share the gradient evenly, as in the ops min and max.
std::vector<Value> vjp_extreme(const ir::VjpCall& call, int batch_axes) {
  Graph& g = call.graph;
  const Value updates = call.inputs[0], indices = call.inputs[1], x = call.inputs[2], y = call.results[0], dy = call.cotangents[0];
  const DType dtype = g.type(x).dtype;
  const Value of_x = astype(g, equal(g, x, y), dtype), of_updates = astype(g, equal(g, updates, rows(g, y, indices, batch_axes)), dtype);
  const Value share = div(g, dy, scatter(g, of_updates, indices, of_x, ScatterMode::add, batch_axes));
  return {mul(g, of_updates, rows(g, share, indices, batch_axes)), Value{}, mul(g, of_x, share)};
}

std::vector<Value> vjp_scatter(const ir::VjpCall& call) {
  const auto [mode, batch_axes] = scatter_attrs(call.attrs);
  switch (mode) {
    case ScatterMode::set: return vjp_set(call, batch_axes);
    case ScatterMode::add: return {rows(call.graph, call.cotangents[0], call.inputs[1], batch_axes), Value{}, call.cotangents[0]};
    case ScatterMode::mul: return vjp_mul(call, batch_axes);
    case ScatterMode::min:
    case ScatterMode::max: break;
  }
  return vjp_extreme(call, batch_axes);
}

// One more shared axis.
std::vector<ir::Batched> batch_scatter(const ir::BatchCall& call) {
  const auto [mode, batch_axes] = scatter_attrs(call.attrs);
  std::vector<Value> in = with_model_axes(call.graph, call.inputs, call.size);
  return {{scatter(call.graph, in[0], in[1], in[2], mode, batch_axes + 1), true}};
}

template <On on>
Kernel kernel_scatter(const ir::KernelRequest& request) {
  const auto [mode, batch_axes] = scatter_attrs(request.attrs);
  auto product = [](const Shape& shape, size_t from, size_t to) {
    return size_of(Shape(shape.begin() + int64_t(from), shape.begin() + int64_t(to))).number();
  };
  const TensorType &indices = request.in[1], &x = request.in[2];
  const size_t p = size_t(batch_axes);
  const kernels::cpu::GatherSizes sizes{.batch = product(x.shape, 0, p),
                                        .outer = 1,
                                        .length = x.shape[p].number(),
                                        .inner = product(x.shape, p + 1, x.rank()),
                                        .count = product(indices.shape, p, indices.rank())};
  if (mode == ScatterMode::set) return for_width(x.dtype, [&]<class T>() { return bind<LAMINA_ON(on, scatter_set<T>)>(sizes); });
  return for_numeric(x.dtype, [&, mode = mode]<class T>() { return bind<LAMINA_ON(on, scatter_combine<T>)>(sizes, mode); });
}

}  // namespace

constinit const ir::OpDef def::scatter{
    .name = "scatter",
    .inputs = 3,
    .parse_attrs = ir::Attrs<ScatterIntoAttrs>::parse,
    .infer = infer_scatter,
    .vjp = vjp_scatter,
    .batch = batch_scatter,
    .cpu = kernel_scatter<On::cpu>,
    .cuda = kernel_scatter<On::gpu>,
    .can_fail = true,
    .in_place = true,
    .first_in_place = 2,
    .doc = "x with updates set, added, multiplied, or the least or largest kept, at integer indices along an axis, in their order",
};

}  // namespace lamina::ops
