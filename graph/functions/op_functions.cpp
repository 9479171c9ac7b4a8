#include "graph/functions/op_functions.h"

#include <algorithm>
#include <array>

#include "graph/frontend/concrete_function.h"
#include "graph/frontend/eager.h"
#include "graph/functions/in_f32.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace def = ops::def;
namespace {

Tensor unary(const ir::OpDef& op, const Operand& x, ir::AttrsRef attrs = nullptr) {
  if (x.is_tensor()) return apply_one(op, std::move(attrs), std::span(&x.tensor(), 1), x.at());
  return apply_one(op, std::move(attrs), std::array{x.resolve()}, x.at());
}
Tensor floating(const ir::OpDef& op, const Operand& x, ir::AttrsRef attrs = nullptr) {
  if (x.is_tensor() && is_floating(x.tensor().dtype())) return unary(op, x, std::move(attrs));
  return apply_one(op, std::move(attrs), std::array{resolve_floating(x)}, x.at());
}

// Two lengths that a signature leaves open and that meet in an op are taken to be equal; a call in which they differ is refused.
Tensor with_lengths_of(const Tensor& like, const Tensor& x, CallSite at) {
  Shape shape = x.shape();
  const size_t both = std::min(shape.size(), like.shape().size());
  for (size_t i = 1; i <= both; ++i) {
    Dim& have = shape[shape.size() - i];
    const Dim want = like.shape()[like.shape().size() - i];
    if (have != want && is_open_length(have) && is_open_length(want)) have = want;
  }
  return reshape_to(Operand(x, at), shape);
}

// How the ops of the table mix dtypes follows from what they compute in.
constexpr Mixing mixing_of(kernels::Domain domain) {
  switch (domain) {
    case kernels::Domain::floating: return Mixing::fractions;
    case kernels::Domain::numeric:
    case kernels::Domain::integer: return Mixing::numbers;
    case kernels::Domain::any:
    case kernels::Domain::bits:
    case kernels::Domain::boolean: break;
  }
  return Mixing::strict;
}
template <kernels::ScalarOp op>
Tensor elementwise(const ir::OpDef& def, const Operand& x) {
  return kernels::domain(op) == kernels::Domain::floating ? floating(def, x) : unary(def, x);
}
template <kernels::ScalarOp op>
Tensor elementwise(const ir::OpDef& def, const Operand& a, const Operand& b) {
  auto [left, right] = resolve_pair(def.name, a, b, mixing_of(kernels::domain(op)));
  if (left.is_symbolic() && right.is_symbolic()) right = with_lengths_of(left, right, b.at());
  std::array<Tensor, 2> in{std::move(left), std::move(right)};
  return apply_one(def, nullptr, in, a.at());
}
Tensor reduce(const ir::OpDef& op, const Operand& x, const AxesOrAll& axes, bool keepdims) {
  return unary(op, x, ir::make_attrs(ops::ReduceAttrs{axes, keepdims}));
}
int rank_of(const Operand& x) { return x.is_tensor() ? x.tensor().rank() : 0; }

}  // namespace

#define LAMINA_APPLY_1(name) elementwise<kernels::ScalarOp::name>(def::name, x)
#define LAMINA_APPLY_2(name) elementwise<kernels::ScalarOp::name>(def::name, a, b)
#define ELEMENTWISE(name, operands, domain, result, cost, access, ...) \
  LAMINA_IF_FUNCTION(access, Tensor name(LAMINA_OPERANDS_##operands) { return LAMINA_APPLY_##operands(name); })
#include "kernels/shared/elementwise_ops.inc"

Tensor pow(const Operand& a, const Operand& b) {
  const bool of_integer = a.is_tensor() ? is_integer(a.tensor().dtype()) : a.kind() == Operand::Kind::integer && !b.is_tensor();
  if (of_integer && b.kind() == Operand::Kind::integer && b.number() < 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("pow: an integer to the power ", int64_t(b.number())),
                                              .where = text(a.at().line()),
                                              .why = "it is a fraction, which no integer is",
                                              .fix = "convert the base first: x.astype('float32')"});
  return LAMINA_APPLY_2(pow);
}

Tensor where(const Operand& condition, const Operand& a, const Operand& b) {
  auto [yes, no] = resolve_pair("where", a, b);
  if (condition.is_tensor() && condition.tensor().is_symbolic()) {
    yes = with_lengths_of(condition.tensor(), yes, a.at());
    no = with_lengths_of(condition.tensor(), no, b.at());
  }
  return apply_one(def::where, nullptr, std::array{condition.resolve(), std::move(yes), std::move(no)}, condition.at());
}

Tensor as_real(const Operand& z) { return unary(def::as_real, z); }
Tensor as_complex(const Operand& pairs) { return unary(def::as_complex, pairs); }
Tensor conj(const Operand& z) {
  const Tensor t = z.resolve();
  if (!is_complex(t.dtype())) return t;
  const Tensor pairs = as_real(Operand(t, z.at()));
  std::vector<int64_t> begin(size_t(pairs.rank()), 0), end(size_t(pairs.rank()), INT64_MAX);
  end.back() = begin.back() = 1;
  const Tensor re = slice(Operand(pairs, z.at()), std::vector<int64_t>(begin.size(), 0), end);
  end.back() = INT64_MAX;
  const Tensor im = slice(Operand(pairs, z.at()), begin, end);
  return as_complex(Operand(concat({re, neg(Operand(im, z.at()))}, -1, z.at()), z.at()));
}

Tensor astype(const Operand& x, DType dtype) {
  if (x.is_tensor() && x.tensor().dtype() == dtype) return x.tensor();
  return unary(def::astype, x, ir::make_attrs(ops::DTypeAttrs{dtype}));
}

Tensor matmul(const Operand& a, const Operand& b, bool transpose_a, bool transpose_b) {
  static const std::vector<ir::AttrsRef>& attrs = *new std::vector<ir::AttrsRef>([] {
    std::vector<ir::AttrsRef> all;
    for (int p = 0; p < kPrecisions; ++p)
      for (int flags = 0; flags < 4; ++flags) all.push_back(ir::make_attrs(ops::MatmulAttrs{flags >= 2, flags % 2 == 1, Precision(p)}));
    return all;
  }());
  auto [left, right] = resolve_pair("matmul", a, b, Mixing::numbers);
  if (left.rank() == 0 || right.rank() == 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("matmul: ", left.type(), " and ", right.type(), " are not matrices"),
                                              .where = text(a.at().line()),
                                              .why = "a tensor without axes has no rows and columns",
                                              .fix = "multiply by a scalar with *"});
  const bool row = left.rank() == 1, column = right.rank() == 1;
  if (row) left = expand_dims(Operand(left, a.at()), 0), transpose_a = false;
  if (column) right = expand_dims(Operand(right, b.at()), 1), transpose_b = false;
  const Precision precision = left.dtype() == DType::f32 ? config::matmul_precision() : Precision::float32;
  Tensor y = apply_one(def::matmul, attrs[size_t(precision) * 4 + transpose_a * 2 + transpose_b],
                       std::array{std::move(left), std::move(right)}, a.at());
  if (!row && !column) return y;
  Shape shape = y.shape();
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  return reshape_to(Operand(y, a.at()), shape);
}

Tensor sum(const Operand& x, const AxesOrAll& axes, bool keepdims) { return reduce(def::sum, x, axes, keepdims); }
Tensor mean(const Operand& x, const AxesOrAll& axes, bool keepdims) {
  return reduce(def::mean, Operand(resolve_floating(x), x.at()), axes, keepdims);
}
Tensor max(const Operand& x, const AxesOrAll& axes, bool keepdims) { return reduce(def::max, x, axes, keepdims); }
Tensor min(const Operand& x, const AxesOrAll& axes, bool keepdims) { return reduce(def::min, x, axes, keepdims); }
Tensor prod(const Operand& x, const AxesOrAll& axes, bool keepdims) { return reduce(def::prod, x, axes, keepdims); }
Tensor argmax(const Operand& x, int axis, bool keepdims) { return unary(def::argmax, x, ir::make_attrs(ops::ArgmaxAttrs{axis, keepdims})); }

Tensor argmin(const Operand& x, int axis, bool keepdims) {  // the order is reversed, without overflow
  const Operand in(x.resolve(), x.at());
  const bool whole = in.tensor().dtype() == DType::boolean || is_integer(in.tensor().dtype());
  return argmax(Operand(whole ? bitwise_not(in) : neg(in), x.at()), axis, keepdims);
}

Tensor gather(const Operand& x, const Operand& indices, int axis, int batch_axes) {
  return apply_one(def::gather, ir::make_attrs(ops::GatherAttrs{axis, batch_axes}), std::array{x.resolve(), indices.resolve()}, x.at());
}
Tensor one_hot(const Operand& labels, int64_t classes, DType dtype) {
  return unary(def::one_hot, labels, ir::make_attrs(ops::OneHotAttrs{classes, dtype}));
}

Tensor softmax(const Operand& x, int axis) { return floating(def::softmax, x, ir::make_attrs(ops::AxisAttrs{axis})); }
Tensor log_softmax(const Operand& x, int axis) { return floating(def::log_softmax, x, ir::make_attrs(ops::AxisAttrs{axis})); }
Tensor sparse_cross_entropy(const Operand& logits, const Operand& labels) {
  return in_f32(logits, [&](const Operand& x) {
    return apply(def::sparse_cross_entropy, nullptr, std::array{x.tensor(), labels.resolve()}, x.at())[0];
  });
}

Tensor softmax_cross_entropy(const Operand& logits, const Operand& targets) {
  return in_f32("softmax_cross_entropy", logits, targets, [](const Operand& x, const Operand& t) {
    const CallSite at = x.at();
    auto o = [at](const Tensor& v) { return Operand(v, at); };
    // An impossible class (logit -inf) that is not the target costs nothing.
    const Tensor logs = log_softmax(x);
    const Tensor masked = logical_and(o(equal(t, Operand(0, at))), o(isinf(o(logs))));
    return neg(o(sum(o(mul(o(where(o(masked), Operand(0.0, at), o(logs))), t)), {-1})));
  });
}
Tensor categorical_cross_entropy(const Operand& probabilities, const Operand& targets) {
  return in_f32("categorical_cross_entropy", probabilities, targets, [](const Operand& x, const Operand& t) {
    const CallSite at = x.at();
    auto o = [at](const Tensor& v) { return Operand(v, at); };
    const Tensor p = clip(o(div(x, o(sum(x, {-1}, true)))), Operand(1e-7, at), Operand(1 - 1e-7, at));
    return neg(o(sum(o(mul(o(log(o(p))), t)), {-1})));
  });
}
// Nonnegative terms without cancellation: log(sigmoid(x)) = -softplus(-x).
Tensor sigmoid_cross_entropy(const Operand& logits, const Operand& targets) {
  return in_f32("sigmoid_cross_entropy", logits, targets, [](const Operand& x, const Operand& t) {
    const CallSite at = x.at();
    auto o = [at](const Tensor& v) { return Operand(v, at); };
    const Tensor yes = mul(t, o(softplus(o(neg(x))))), no = mul(o(sub(Operand(1.0, at), t)), o(softplus(x)));
    return add(o(yes), o(no));
  });
}

// --- shapes ---

Tensor reshape_to(const Operand& x, const Shape& shape) {
  if (x.is_tensor() && x.tensor().shape() == shape) return x.tensor();
  return unary(def::reshape, x, ir::make_attrs(ops::ShapeAttrs{shape}));
}

Tensor reshape(const Operand& x, const std::vector<int64_t>& wanted) {
  const Tensor t = x.resolve();
  Shape shape(wanted.size());
  int open = -1;
  Dim rest = 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < -1 || (wanted[i] == -1 && open >= 0))
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat("reshape: ", wanted[i] < -1 ? cat("dimension ", wanted[i], " is negative") : "two dimensions are -1"),
                   .where = text(x.at().line()),
                   .why = "one dimension may be -1: it is what remains",
                   .fix = "give the other dimensions as numbers"});
    if (wanted[i] == -1)
      open = int(i);
    else
      rest = rest * (shape[i] = wanted[i]);
  }
  if (open >= 0) {
    const Dim total = size_of(t.shape());
    const bool divides = rest != Dim(0) && (!total.known() || !rest.known() || total.number() % rest.number() == 0);
    if (!divides)
      throw Error(ErrorKind::invalid_argument, {.what = cat("reshape: ", t.type(), " does not fit the shape ", ir::attr_text(wanted)),
                                                .where = text(x.at().line()),
                                                .why = cat("the input has ", total, " elements, which ", rest, " does not divide"),
                                                .fix = "pass dimensions whose product divides the number of elements"});
    shape[size_t(open)] = total / rest;
  }
  return reshape_to(Operand(t, x.at()), shape);
}

Tensor flatten(const Operand& x, int first_axis) {
  const Tensor t = x.resolve();
  const int first = t.rank() == 0 && first_axis == 0 ? 0 : normalize_axis("flatten", first_axis, size_t(t.rank()));
  Shape shape(t.shape().begin(), t.shape().begin() + first), rest(t.shape().begin() + first, t.shape().end());
  shape.push_back(size_of(rest));
  return reshape_to(Operand(t, x.at()), shape);
}

Tensor broadcast_to(const Operand& x, const Shape& shape) {
  if (x.is_tensor() && x.tensor().shape() == shape) return x.tensor();
  return unary(def::broadcast_to, x, ir::make_attrs(ops::ShapeAttrs{shape}));
}

Tensor transpose(const Operand& x, const AxesOrAll& order) {
  Axes axes = order.named();
  for (int64_t& axis : axes)  // the op refuses an axis out of range
    if (axis < 0 && axis >= -rank_of(x)) axis += rank_of(x);
  for (int i = rank_of(x) - 1; order.all() && i >= 0; --i) axes.push_back(i);
  return unary(def::transpose, x, ir::make_attrs(ops::TransposeAttrs{std::move(axes)}));
}

Tensor expand_dims(const Operand& x, int axis) {
  const Tensor t = x.resolve();
  Shape shape = t.shape();
  shape.insert(shape.begin() + normalize_axis("expand_dims", axis, shape.size() + 1), Dim(1));
  return reshape_to(Operand(t, x.at()), shape);
}

Tensor squeeze(const Operand& x, const AxesOrAll& axes) {
  const Tensor t = x.resolve();
  std::vector<bool> drop(size_t(t.rank()));
  for (int64_t axis : axes.named()) {
    const int a = normalize_axis("squeeze", axis, drop.size());
    if (drop[size_t(a)])
      throw Error(ErrorKind::invalid_argument, {.what = cat("squeeze: axis ", axis, " is named twice"),
                                                .where = text(x.at().line()),
                                                .why = "an axis can be dropped once",
                                                .fix = "name each axis once"});
    if (t.shape()[size_t(a)] != Dim(1))
      throw Error(ErrorKind::invalid_argument, {.what = cat("squeeze: axis ", axis, " of ", t.type(), " has length ", t.shape()[size_t(a)]),
                                                .where = text(x.at().line()),
                                                .why = "only axes of length 1 can be dropped",
                                                .fix = "pass an axis of length 1, or none for all of them"});
    drop[size_t(a)] = true;
  }
  if (axes.all() && !known(t.shape()))
    throw Error(ErrorKind::invalid_argument, {.what = cat("squeeze: which axes of ", t.type(), " have length 1 is not known while tracing"),
                                              .where = text(x.at().line()),
                                              .why = "the number of axes would follow from a length that is open",
                                              .fix = "name the axes: lm.squeeze(x, axis)"});
  Shape shape;
  for (size_t i = 0; i < drop.size(); ++i)
    if (!(axes.all() ? t.shape()[i] == Dim(1) : bool(drop[i]))) shape.push_back(t.shape()[i]);
  return reshape_to(Operand(t, x.at()), shape);
}

Tensor concat(const std::vector<Tensor>& parts, int axis, CallSite at) {
  std::vector<Operand> operands;
  for (const Tensor& t : parts) operands.emplace_back(t, at);
  const bool follow = std::any_of(parts.begin(), parts.end(), [](const Tensor& t) { return t.strength() != Strength::tensor; });
  return apply_one(def::concat, ir::make_attrs(ops::AxisAttrs{axis}), follow ? resolve_all("concat", operands) : parts, at);
}

Tensor stack(const std::vector<Tensor>& parts, int axis, CallSite at) {
  std::vector<Tensor> rows;
  for (const Tensor& t : parts) rows.push_back(expand_dims(Operand(t, at), axis).with(t.strength()));
  return concat(rows, axis, at);
}

}  // namespace lamina
