// The elementwise ops, from the rows of kernels/shared/elementwise_ops.inc: operands broadcast as in NumPy and have one dtype; the result
// has it too, or is bool.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"
#include "graph/ops/region_code.h"
#include "graph/ops/rows.h"
#include "graph/ops/vjp_in_f32.h"
#include "runtime/core/common_dtype.h"

namespace lamina::ops {
namespace {

using ir::VjpCall;
using kernels::Domain;
using kernels::ScalarOp;

// --- rules that all of them share ---

void require_domain(ScalarOp op, const TensorType& in) {
  const char* op_name = name(op);
  switch (domain(op)) {
    case Domain::floating: return require_floating(op_name, in);
    case Domain::numeric: return require_numeric(op_name, in);
    case Domain::boolean:
      if (in.dtype != DType::boolean)
        throw Error(ErrorKind::type, {.what = cat(op_name, ": ", in, " is not bool"),
                                      .where = "",
                                      .why = cat(op_name, " is defined for bool"),
                                      .fix = "compare it first (x != 0), or convert it: x.astype('bool')"});
      return;
    case Domain::integer:
    case Domain::bits:
      if (is_integer(in.dtype) || (in.dtype == DType::boolean && domain(op) == Domain::bits)) return;
      throw Error(ErrorKind::type, {.what = cat(op_name, ": ", in, " is not an integer tensor"),
                                    .where = "",
                                    .why = cat(op_name, " is defined for integers", domain(op) == Domain::bits ? " and bool" : ""),
                                    .fix = "convert it first: x.astype('int32')"});
    case Domain::any: return;
  }
}

void require_one_dtype(const char* op_name, const TensorType& a, const TensorType& b) {
  if (a.dtype == b.dtype) return;
  throw Error(ErrorKind::type, {.what = cat(op_name, ": operands are ", a, " and ", b),
                                .where = "",
                                .why = "they must have one dtype: tensors are never converted silently",
                                .fix = same_dtype_advice(a.dtype, b.dtype)});
}

Shape broadcast_types(const char* op_name, const TensorType& a, const TensorType& b, const Shape& so_far) {
  try {
    return broadcast(so_far, b.shape);
  } catch (const Error& e) {
    throw does_not_fit(op_name, a, b, e.parts.why, "reshape one of them");
  }
}

template <ScalarOp op>
std::vector<TensorType> infer_elementwise(const ir::InferCall& call) {
  const char* op_name = name(op);
  std::span<const TensorType> in = call.in;
  for (const TensorType& t : in) require_common(op_name, t);
  if constexpr (op == ScalarOp::where) {
    if (in[0].dtype != DType::boolean)
      throw Error(ErrorKind::type, {.what = cat("where: the condition is ", in[0]),
                                    .where = "argument 'condition'",
                                    .why = "a condition is bool",
                                    .fix = "compare it first (x != 0), or convert it: x.astype('bool')"});
    require_one_dtype(op_name, in[1], in[2]);
    Shape shape = broadcast_types(op_name, in[0], in[1], in[0].shape);
    shape = broadcast_types(op_name, {in[1].dtype, shape}, in[2], shape);
    require_rank(op_name, shape);
    return {{in[1].dtype, shape}};
  } else if constexpr (operands(op) == 3) {
    require_one_dtype(op_name, in[0], in[1]);
    require_one_dtype(op_name, in[0], in[2]);
    require_domain(op, in[0]);
    Shape shape = broadcast_types(op_name, in[0], in[1], in[0].shape);
    shape = broadcast_types(op_name, {in[0].dtype, shape}, in[2], shape);
    require_rank(op_name, shape);
    return {{in[0].dtype, shape}};
  } else {
    if (in.size() == 2) require_one_dtype(op_name, in[0], in[1]);
    require_domain(op, in[0]);
    Shape shape = in[0].shape;
    if (in.size() == 2) shape = broadcast_types(op_name, in[0], in[1], shape);
    require_rank(op_name, shape);
    return {{gives_bool(op) ? DType::boolean : in[0].dtype, shape}};
  }
}

// One more leading axis; operands of lower rank get axes of length 1 after it.
template <const ir::OpDef& def>
std::vector<ir::Batched> batch_elementwise(const ir::BatchCall& call) {
  size_t rank = 0;
  for (const ir::Batched& in : call.inputs) rank = std::max(rank, call.graph.type(in.value).rank() - (in.batched ? 1 : 0));
  std::vector<Value> values;
  for (const ir::Batched& in : call.inputs) values.push_back(lift(call.graph, in, rank));
  return {{call.graph.add(def, nullptr, std::move(values)), true}};
}

template <On on, ScalarOp op>
Kernel kernel_elementwise(const ir::KernelRequest& request) {
  return elementwise_kernel(on, code_of(op, request.in, request.out[0].dtype));
}

template <ScalarOp op>
bool step_elementwise(const ir::KernelRequest& request, ir::SectionStep& step) {
  return elementwise_step(request, code_of(op, request.in, request.out[0].dtype), step);
}

// --- gradients: a namespace of their own, since their functions of terms have the names of those of nodes ---

namespace gradients {

// A value in a gradient formula: an operand of C++'s operators and of the elementwise ops by name. A number becomes a constant of the other
// operand's dtype.
struct Term {
  Term() = default;  // empty: no gradient flows
  Term(Graph& graph, Value v) : g(&graph), value(v) {}
  Term(double c) : number(c) {}
  Graph* g = nullptr;
  Value value;
  double number = 0;
};
Value value_of(const Term& t, const Term& like) { return t.g ? t.value : scalar(*like.g, like.g->type(like.value).dtype, t.number); }
#define LAMINA_TERM_1(name) \
  [[maybe_unused]] Term name(const Term& x) { return {*x.g, x.g->add(def::name, {x.value})}; }
#define LAMINA_TERM_2(name)                                                           \
  [[maybe_unused]] Term name(const Term& a, const Term& b) {                          \
    const Term& like = a.g ? a : b;                                                   \
    return {*like.g, like.g->add(def::name, {value_of(a, like), value_of(b, like)})}; \
  }
#define LAMINA_TERM_3(name) /* the first of where is its condition */                                    \
  [[maybe_unused]] Term name(const Term& a, const Term& b, const Term& c) {                              \
    const Term& like = c.g ? c : b.g ? b : a;                                                            \
    return {*like.g, like.g->add(def::name, {value_of(a, like), value_of(b, like), value_of(c, like)})}; \
  }
#define ELEMENTWISE(name, operands, ...) LAMINA_TERM_##operands(name)
#include "kernels/shared/elementwise_ops.inc"
Term operator+(const Term& a, const Term& b) { return add(a, b); }
Term operator-(const Term& a, const Term& b) { return sub(a, b); }
Term operator*(const Term& a, const Term& b) { return mul(a, b); }
Term operator/(const Term& a, const Term& b) { return div(a, b); }
Term operator<(const Term& a, const Term& b) { return less(a, b); }
Term operator>(const Term& a, const Term& b) { return greater(a, b); }
Term operator-(const Term& x) { return neg(x); }

// The gradient formulas of the table see: the op's operands (x is the first), its result y(), and dy.
struct Grad {
  explicit Grad(const VjpCall& c) : call(c), dy(c.graph, c.cotangents[0]), x(operand(0)), a(x), b(operand(1)), c(operand(2)) {}
  const VjpCall& call;
  Term dy, x, a, b, c;
  static inline const Term none;

  Term operand(size_t i) const { return i < call.inputs.size() ? Term(call.graph, call.inputs[i]) : Term(); }
  Term y() const { return {call.graph, call.results[0]}; }
  Term number(double v) const { return {call.graph, scalar(call.graph, call.graph.type(dy.value).dtype, v)}; }
  bool is_f64() const { return call.graph.type(dy.value).dtype == DType::f64; }
  // The operands' gradients, with broadcasting undone.
  std::vector<Value> of(const std::vector<Term>& to) const {
    std::vector<Value> out;
    for (size_t i = 0; i < to.size(); ++i)
      out.push_back(to[i].g ? sum_to(call.graph, to[i].value, call.graph.type(call.inputs[i]).shape) : Value{});
    return out;
  }
};
using Terms = std::vector<Term>;

// --- longer formulas ---

// A scale to divide by so that squares neither overflow nor underflow. It needs no gradient, because the result does not depend on it.
Term size_between(const Term& size, double least, double most) {
  return {*size.g, size.g->add(def::stop_gradient, {clip(size, least, most).value})};
}
// 1 / sqrt(1 - x^2), factored to stay accurate near 1 and -1.
Term slope_of_asin(const Grad& c) { return rsqrt((1 + c.x) * (1 - c.x)); }
// 1 / sqrt(x^2 + 1)
Term slope_of_asinh(const Grad& c) {
  const Term size = size_between(abs(c.x), 1, c.is_f64() ? 1e150 : 1e18);
  return rsqrt(square(c.x / size) + square(reciprocal(size))) / size;
}
// With y = a and x = b: dy b / (a^2 + b^2) and -dy a / (a^2 + b^2); 0 at infinity, NaN at the origin, which has no slope.
Terms by_angle(const Grad& c) {
  const Term distance = maximum(abs(c.a), abs(c.b)), far = isinf(distance);
  const Term size = size_between(distance, c.is_f64() ? 1e-307 : 1e-37, c.is_f64() ? 1e308 : 3e38);
  const Term a = where(far, 1, c.a / size), b = where(far, 1, c.b / size);
  const Term square_sum = square(a) + square(b), scale = where(far, 0, reciprocal(size));
  return {c.dy * (b / square_sum * scale), -(c.dy * (a / square_sum * scale))};
}
// The bounds count as inside, so that x can move back from them; between equal bounds x does not move.
Terms by_bounds(const Grad& c) {
  const Term below = c.x<c.b, above = maximum(c.x, c.b)> c.c;
  const Term held = logical_or(logical_or(below, above), greater_equal(c.b, c.c));
  return {where(held, 0, c.dy), where(above, 0, where(below, c.dy, 0)), where(above, c.dy, 0)};
}
// Where both operands are equal, each gets half.
Terms by_choice(const Grad& c, const Term& first, const Term& second) {
  const Term ties = where(equal(c.a, c.b), c.dy * 0.5, 0);
  return {where(first, c.dy, ties), where(second, c.dy, ties)};
}
Terms by_quotient(const Grad& c) {
  const Term da = c.dy / c.b;
  return {da, -(da * c.y())};
}
// Of a where b > 0, else a alpha e^b.
Terms by_elu_grad(const Grad& c) {
  const Term below = exp(minimum(c.b, 0)), dalpha = where(c.b > 0, 0, c.dy * c.a * below);
  return {elu_grad(c.dy, c.b, c.c), dalpha * c.c, dalpha};
}
// A nonnegative slope keeps the sign of a.
Terms by_leaky_relu(const Grad& c) {
  const ir::Literal* slope = ir::constant_value(c.call.graph, c.b.value);
  const bool keeps_sign = slope && size_of(slope->type.shape) == Dim(1) && slope->first() >= 0;
  const Term da = keeps_sign ? leaky_relu_grad(c.dy, c.y(), c.b) : where(c.a > 0, c.dy, c.dy * c.b);
  return {da, where(c.a > 0, 0, c.dy * c.a)};
}
// sigmoid(a - b) and sigmoid(b - a); the difference of equal infinities counts as 0.
Terms by_logaddexp(const Grad& c) {
  const Term apart = where(logical_and(equal(c.a, c.b), isinf(c.a)), 0, c.a - c.b);
  return {c.dy * sigmoid(apart), c.dy * sigmoid(-apart)};
}
// da = dy b a^(b-1), 0 for b = 0, even where a^-1 is undefined. db = dy y log(a), 0 where a is not positive (there a^b exists only for
// integer b) and where y has underflowed.
Terms by_power(const Grad& c) {
  const ir::Literal* number = ir::constant_value(c.call.graph, c.b.value);
  const bool known = number && number->type.rank() == 0 && number->first() != 0;
  const Term power = known ? c.number(number->first() - 1) : c.b - 1;
  const Term base = known ? c.a : where(logical_and(equal(c.b, 0), logical_not(isfinite(reciprocal(c.a)))), 1, c.a);
  const Term counts = logical_and(c.a > 0, not_equal(c.y(), 0));
  return {c.dy * (c.b * pow(base, power)), c.dy * where(counts, c.y() * log(where(counts, c.a, 1)), 0)};
}
// Second derivatives at b. Where they have underflowed, b is not used, because its square overflows.
Term before(const Term& b, double far) { return clip(b, -far, far); }
// gelu'' = (2 - b^2) e^(-b^2/2) / sqrt(2 pi)
Term bend_of_gelu(const Grad& c) {
  const Term b2 = square(before(c.b, 40));
  return (2 - b2) * (exp(b2 * -0.5) * 0.3989422804014327);
}
// For b s with s = sigmoid(v), v = k b + m b^3: s + b s(1-s) v', with slope s(1-s) (2 v' + b ((1-2s) v'^2 + v'')).
Term bend_of_gelu_tanh(const Grad& c) {
  constexpr double k = 1.5957691216057308, m = 0.07135481627260025;
  const Term b = before(c.b, 40), b2 = square(b), s = sigmoid(b * (b2 * m + k));
  const Term v1 = b2 * (3 * m) + k, v2 = b * (6 * m);
  return (s - square(s)) * (v1 + v1 + b * ((1 - (s + s)) * square(v1) + v2));
}
// silu'' = s(1-s) (2 + b (1-2s)) with s = sigmoid(b)
Term bend_of_silu(const Grad& c) {
  const Term b = before(c.b, 1000), s = sigmoid(b);
  return (s - square(s)) * (b * (1 - (s + s)) + 2);
}

using Vjp = std::vector<Value> (*)(const VjpCall&);
template <class Rule>
std::vector<Value> vjp_elementwise(const VjpCall& call) {
  if (!call.cotangents[0].valid()) return std::vector<Value>(call.inputs.size());
  return Rule(call).flow();
}
template <class Rule, const ir::OpDef& def>
constexpr Vjp vjp_of() {
  if constexpr (!Rule::flows)
    return nullptr;
  else if constexpr (Rule::smooth)
    return vjp_in_f32<vjp_elementwise<Rule>, def>;
  else
    return vjp_elementwise<Rule>;
}
constexpr const char* why_no_vjp(ScalarOp op) {
  return gives_bool(op) ? "its result is bool: it does not change smoothly"
                        : "its operands are whole numbers or bools: they do not change smoothly";
}

// fmod: a - b trunc(a / b). (a - y) / b is that integer up to rounding; a / b may round up to the next one.
#define LAMINA_FLOW(is_smooth, ...)                       \
  static constexpr bool flows = true, smooth = is_smooth; \
  std::vector<Value> flow() const { return of({__VA_ARGS__}); }
#define SMOOTH(...) LAMINA_FLOW(true, __VA_ARGS__)
#define EXACT(...) LAMINA_FLOW(false, __VA_ARGS__)
#define NONE static constexpr bool flows = false;
#define ELEMENTWISE(name, operands, domain, result, cost, access, gradient, doc) \
  struct name##_rule : Grad {                                                    \
    using Grad::Grad;                                                            \
    gradient                                                                     \
  };
#include "kernels/shared/elementwise_ops.inc"

}  // namespace gradients
}  // namespace

#define ELEMENTWISE(op, operand_count, domain, result, cost, access, gradient, text)         \
  constinit const ir::OpDef def::op{                                                         \
      .name = #op,                                                                           \
      .inputs = operand_count,                                                               \
      .infer = infer_elementwise<ScalarOp::op>,                                              \
      .vjp = gradients::vjp_of<gradients::op##_rule, def::op>(),                             \
      .batch = batch_elementwise<def::op>,                                                   \
      .rows = rows_elementwise,                                                              \
      .cpu = kernel_elementwise<On::cpu, ScalarOp::op>,                                      \
      .cuda = kernel_elementwise<On::gpu, ScalarOp::op>,                                     \
      .section = step_elementwise<ScalarOp::op>,                                             \
      .scalar_op = int(ScalarOp::op),                                                        \
      .strided = true,                                                                       \
      .in_place = true,                                                                      \
      .no_vjp = gradients::op##_rule::flows ? nullptr : gradients::why_no_vjp(ScalarOp::op), \
      .doc = text,                                                                           \
  };
#include "kernels/shared/elementwise_ops.inc"
#undef LAMINA_TERM_1
#undef LAMINA_TERM_2
#undef LAMINA_TERM_3
#undef LAMINA_FLOW
#undef SMOOTH
#undef EXACT
#undef NONE

}  // namespace lamina::ops
