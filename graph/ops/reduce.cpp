// sum, mean, max, min and prod over axes, by default all. keepdims keeps them with length 1.
#include "kernels/reduce.h"

#include <algorithm>
#include <limits>

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/vjp_in_f32.h"

namespace lamina::ops {
namespace {

using section::Reduction;

constexpr const char* name_of(Reduction op) {
  constexpr const char* names[] = {"sum", "mean", "max", "min", "prod"};
  return names[int(op)];
}

// One flag per axis.
std::vector<bool> reduced_axes(const char* op, const ReduceAttrs& attrs, const TensorType& in) {
  std::vector<bool> reduced(in.rank(), attrs.axes.all());
  for (int64_t axis : attrs.axes.named()) {
    const int a = axis_of(op, axis, in);
    if (reduced[size_t(a)])
      throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": axis ", axis, " is named twice"),
                                                .where = "argument 'axes'",
                                                .why = cat("an axis of ", in, " can be reduced once"),
                                                .fix = "name each axis once"});
    reduced[size_t(a)] = true;
  }
  return reduced;
}

Shape kept_shape(const Shape& shape, const std::vector<bool>& reduced, bool keepdims) {
  Shape out;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (!reduced[a])
      out.push_back(shape[a]);
    else if (keepdims)
      out.push_back(1);
  }
  return out;
}

template <Reduction op>
std::vector<TensorType> infer_reduce(const ir::InferCall& call) {
  const auto& attrs = ir::attrs_of<ReduceAttrs>(call.attrs);
  const TensorType& in = call.in[0];
  const std::vector<bool> reduced = reduced_axes(name_of(op), attrs, in);
  if (op == Reduction::mean) require_floating("mean", in);
  if (op == Reduction::max || op == Reduction::min) {
    bool empty = false;
    for (size_t a = 0; a < in.rank(); ++a) empty = empty || (reduced[a] && in.shape[a] == Dim(0));
    if (empty)
      throw Error(ErrorKind::invalid_argument, {.what = cat(name_of(op), ": ", in, " has nothing to choose from"),
                                                .where = "",
                                                .why = "a reduced dimension is 0, and there is no largest or smallest of no elements",
                                                .fix = "check the size before"});
  }
  const bool counts = (op == Reduction::sum || op == Reduction::prod) && in.dtype == DType::boolean;
  const DType dtype = counts ? DType::i64 : in.dtype;
  return {{dtype, kept_shape(in.shape, reduced, attrs.keepdims)}};
}

// y or dy, which may lack the reduced axes, reshaped to broadcast to x.
Value with_kept_axes(Graph& g, Value v, Value x, const std::vector<bool>& reduced) {
  return reshape(g, v, kept_shape(g.type(x).shape, reduced, true));
}

// x[..., from : to] of the last axis; to may be INT64_MAX.
Value part(Graph& g, Value x, int64_t from, int64_t to) {
  const size_t rank = g.type(x).rank();
  if (rank == 0) return x;
  std::vector<int64_t> begin(rank), end(rank, std::numeric_limits<int64_t>::max());
  begin[rank - 1] = from, end[rank - 1] = to;
  return slice(g, x, std::move(begin), std::move(end), std::vector<int64_t>(rank, 1));
}

// The gradient of a product without division, so that zeros and higher derivatives are right: elements are multiplied pairwise as a tree,
// and dy is propagated down the tree.
Value through_product(Graph& g, Value x, Value dy, const std::vector<bool>& reduced) {
  const Shape shape = g.type(x).shape;
  std::vector<int64_t> order, back(shape.size());
  Shape moved, flat;
  for (bool last : {false, true})
    for (size_t a = 0; a < shape.size(); ++a)
      if (reduced[a] == last) back[a] = int64_t(order.size()), order.push_back(int64_t(a)), moved.push_back(shape[a]);
  Dim length = 1;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (reduced[a])
      length = length * shape[a];
    else
      flat.push_back(shape[a]);
  }
  const int last_axis = int(flat.size());
  flat.push_back(length);
  int64_t n = length.number();
  if (n == 0) return {};
  constexpr int64_t end = std::numeric_limits<int64_t>::max();
  struct Level {
    Value a, b;
    int64_t half, rest;
  };
  std::vector<Level> levels;
  for (Value v = reshape(g, transpose(g, x, order), flat); n > 1; n -= levels.back().half) {
    const int64_t half = n / 2;
    levels.push_back({part(g, v, 0, half), part(g, v, half, 2 * half), half, n - 2 * half});
    const Value joined = mul(g, levels.back().a, levels.back().b);
    v = n % 2 ? concat(g, {joined, part(g, v, 2 * half, end)}, last_axis) : joined;
  }
  flat.back() = 1;
  Value d = reshape(g, dy, flat);
  for (size_t i = levels.size(); i-- > 0;) {
    const Level& level = levels[i];
    const Value pairs = level.rest ? part(g, d, 0, level.half) : d;
    std::vector<Value> parts{mul(g, pairs, level.b), mul(g, pairs, level.a)};
    if (level.rest) parts.push_back(part(g, d, level.half, end));
    d = concat(g, std::move(parts), last_axis);
  }
  return transpose(g, reshape(g, d, moved), back);
}

template <Reduction op>
std::vector<Value> vjp_reduce(const ir::VjpCall& call) {
  Value x = call.inputs[0], dy = call.cotangents[0];
  if (!dy.valid()) return {Value{}};
  Graph& g = call.graph;
  const TensorType type = g.type(x);
  const std::vector<bool> reduced = reduced_axes(name_of(op), ir::attrs_of<ReduceAttrs>(call.attrs), type);
  dy = with_kept_axes(g, dy, x, reduced);
  Axes axes;
  for (size_t a = 0; a < type.rank(); ++a)
    if (reduced[a]) axes.push_back(int64_t(a));
  if constexpr (op == Reduction::sum) return {broadcast_to(g, dy, type.shape)};
  if constexpr (op == Reduction::prod) {
    Dim length = 1;
    for (size_t a = 0; a < type.rank(); ++a)
      if (reduced[a]) length = length * type.shape[a];
    if (length.known()) return {through_product(g, x, dy, reduced)};
    // The product of all elements; where x is 0, the product of the others.
    const Value zero = scalar(g, type.dtype, 0), one = scalar(g, type.dtype, 1), is_zero = equal(g, x, zero);
    const Value some = where(g, is_zero, one, x), zeros = sum(g, astype(g, is_zero, type.dtype), axes, true);
    const Value of_zero = where(g, equal(g, zeros, one), prod(g, some, axes, true), zero);
    return {mul(g, dy, where(g, is_zero, of_zero, div(g, with_kept_axes(g, call.results[0], x, reduced), some)))};
  }
  // For a mean the part is dy / n; if n is unknown, the mean of n copies of dy.
  if constexpr (op == Reduction::mean) {
    Shape lengths;
    for (size_t a = 0; a < type.rank(); ++a)
      if (reduced[a]) lengths.push_back(type.shape[a]);
    if (known(lengths)) {
      Value part = div(g, dy, scalar(g, type.dtype, double(size_of(lengths).number())));
      return {broadcast_to(g, part, type.shape)};
    }
    Value count = sum(g, full(g, {type.dtype, type.shape}, 1), axes, true);
    return {broadcast_to(g, div(g, dy, count), type.shape)};
  }
  if constexpr (op == Reduction::max || op == Reduction::min) {
    if (axes.empty()) return {dy};
    Value chosen = astype(g, equal(g, x, with_kept_axes(g, call.results[0], x, reduced)), type.dtype);
    return {mul(g, chosen, div(g, dy, sum(g, chosen, axes, true)))};
  }
}

// The model axis stays in front; negative axes need no change.
template <const ir::OpDef& def>
std::vector<ir::Batched> batch_reduce(const ir::BatchCall& call) {
  ReduceAttrs attrs = ir::attrs_of<ReduceAttrs>(call.attrs);
  const int64_t rank = int64_t(call.graph.type(call.inputs[0].value).rank());
  Axes axes = attrs.axes.named();
  for (int64_t& axis : axes)
    if (axis >= 0) ++axis;
  for (int64_t a = 1; attrs.axes.all() && a < rank; ++a) axes.push_back(a);
  attrs.axes = std::move(axes);
  return {{call.graph.add(def, ir::make_attrs(std::move(attrs)), {call.inputs[0].value}), true}};
}

// Reduced rows give a leaf per shard: sums and means are added in the tree, others reduced again.
template <Reduction op>
std::optional<ir::RowsRule> rows_reduce(const ir::RowsCall& call) {
  using Leaves = ir::RowsRule::Leaves;
  const auto& attrs = ir::attrs_of<ReduceAttrs>(call.attrs);
  const ir::Cut cut = call.cuts[0];
  if (cut.whole()) return {};
  const std::vector<bool> reduced = reduced_axes(name_of(op), attrs, call.in[0]);
  if (!reduced[size_t(cut.axis)]) {
    const int before = int(std::count(reduced.begin(), reduced.begin() + cut.axis, true));
    // Sums of one column are added in another order than those of several, and a rank may have one row.
    int64_t columns = cut.each;
    for (size_t a = size_t(cut.axis) + 1; a < reduced.size(); ++a)
      if (!reduced[a]) columns *= call.in[0].shape[a].number();
    const bool of_all = before > 0 && columns < 2;
    return ir::RowsRule{.in = {of_all ? ir::Cut{} : cut}, .out = {{cut.axis - (attrs.keepdims ? 0 : before), cut.each}}, .of_all = of_all};
  }
  ir::RowsRule rule{.in = {cut}, .out = {{}}};
  constexpr bool adds = op == Reduction::sum || op == Reduction::mean;
  if (!adds && call.few) return {};
  rule.leaves = adds ? Leaves::added : Leaves::reduced;
  if (op == Reduction::mean) {
    rule.op = &def::sum;
    for (size_t a = 0; a < reduced.size(); ++a)
      if (reduced[a]) rule.divisor *= double(call.in[0].shape[a].number());
  }
  return rule;
}

uint32_t mask(const std::vector<bool>& reduced) {
  uint32_t bits = 0;
  for (size_t a = 0; a < reduced.size(); ++a) bits |= uint32_t(reduced[a]) << a;
  return bits;
}

template <On on, Reduction op>
Kernel kernel_reduce(const ir::KernelRequest& request) {
  return bind<LAMINA_ON(on, reduce)>(op, mask(reduced_axes(name_of(op), ir::attrs_of<ReduceAttrs>(request.attrs), request.in[0])));
}

// As a step: the reduced axes must be the leading or the trailing ones of an f32 tensor.
template <Reduction op>
bool step_reduce(const ir::KernelRequest& request, ir::SectionStep& step) {
  if (request.in[0].dtype != DType::f32) return false;
  std::vector<bool> reduced = reduced_axes(name_of(op), ir::attrs_of<ReduceAttrs>(request.attrs), request.in[0]);
  std::vector<int64_t> shape = numbers(request.in[0].shape);
  auto same_before = [&] {
    size_t split = 0;
    while (split < shape.size() && reduced[split] == reduced[0]) ++split;
    return split;
  };
  // A kept first axis, with kept axes between it and the reduced ones or after them: each entry is treated as a model of an ensemble.
  int64_t models = 1;
  if (shape.size() > 2 && !reduced[0] && shape[0] > 0 && (same_before() > 1 || !reduced.back())) {
    models = shape[0];
    shape.erase(shape.begin());
    reduced.erase(reduced.begin());
  }
  const size_t split = same_before();
  for (size_t a = split; a < shape.size(); ++a)
    if (reduced[a] == reduced[0]) return false;
  int64_t rows = 1, n = 1;
  for (size_t a = 0; a < shape.size(); ++a) (a < split ? rows : n) *= shape[a];
  if (std::max(rows, n) > std::numeric_limits<int32_t>::max() || rows * n == 0) return false;
  section::Step& s = step.step;
  s.kind = section::StepKind::reduce;
  s.reduction = op;
  s.ins = 1, s.outs = 1, s.first_out = 1;
  const bool leading = shape.empty() || reduced[0];
  if (split == shape.size()) {  // all axes are reduced, or none
    if (!leading) return false;
    s.reduced = section::Broadcast::scalar;
    std::swap(rows, n);
  } else {
    s.reduced = leading ? section::Broadcast::row : section::Broadcast::column;
  }
  s.rows = int32_t(rows), s.n = int32_t(n);
  s.partition = s.reduced == section::Broadcast::column && split == 1 && rows > 1 ? section::Partition::rows : section::Partition::one;
  step.operands = {{.buffer = 0}, {.buffer = 1, .broadcast = s.reduced}};
  step.flops = double(rows) * double(n) * double(models);
  if (models > 1) {
    if (rows * n > std::numeric_limits<int32_t>::max() || models > std::numeric_limits<int32_t>::max()) return false;
    s.partition = section::Partition::models;
    s.replicas = int32_t(models);
    step.operands[0].model_stride = int32_t(rows * n);
    step.operands[1].model_stride = int32_t(s.reduced == section::Broadcast::column ? rows : s.reduced == section::Broadcast::row ? n : 1);
  }
  return true;
}

}  // namespace

#define LAMINA_REDUCTION(op, gradient, what, more)                                                                                   \
  constinit const ir::OpDef def::op{                                                                                                 \
      .name = #op,                                                                                                                   \
      .inputs = 1,                                                                                                                   \
      .parse_attrs = ir::Attrs<ReduceAttrs>::parse,                                                                                  \
      .infer = infer_reduce<Reduction::op>,                                                                                          \
      .vjp = gradient,                                                                                                               \
      .batch = batch_reduce<def::op>,                                                                                                \
      .rows = rows_reduce<Reduction::op>,                                                                                            \
      .cpu = kernel_reduce<On::cpu, Reduction::op>,                                                                                  \
      .cuda = kernel_reduce<On::gpu, Reduction::op>,                                                                                 \
      .section = step_reduce<Reduction::op>,                                                                                         \
      .strided = true,                                                                                                               \
      .doc = what " over an axis or several (negative: from the back), over all without; keepdims keeps them with length 1.\n" more, \
  };

LAMINA_REDUCTION(sum, vjp_reduce<Reduction::sum>, "The sum",
                 "bool sums to int64, other dtypes stay and integers wrap; f16 and bf16 are added in f32. Of nothing: 0")
LAMINA_REDUCTION(mean, (vjp_in_f32<vjp_reduce<Reduction::mean>, def::mean>), "The mean",
                 "of integers and bools in f32; f16 and bf16 are added in f32. Of nothing: NaN")
LAMINA_REDUCTION(max, (vjp_in_f32<vjp_reduce<Reduction::max>, def::max>), "The largest element",
                 "NaN if one is. Elements that tie share the gradient evenly")
LAMINA_REDUCTION(min, (vjp_in_f32<vjp_reduce<Reduction::min>, def::min>), "The smallest element",
                 "NaN if one is. Elements that tie share the gradient evenly")
LAMINA_REDUCTION(prod, (vjp_in_f32<vjp_reduce<Reduction::prod>, def::prod>), "The product",
                 "bool to int64, other dtypes stay and integers wrap; f16 and bf16 are multiplied in f32. Of nothing: 1")

}  // namespace lamina::ops
