// The elementwise ops, a row each: operands broadcast as in NumPy and have one dtype; the result has it too, or is bool.
// kernels/shared/scalar_ops.h says what each computes.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"
#include "graph/ops/region_code.h"
#include "graph/ops/vjp_in_f32.h"
#include "runtime/core/common_dtype.h"

namespace lamina::ops {
namespace {

using ir::VjpCall;
using kernels::Domain;
using kernels::ScalarOp;

// --- the rules that all of them share ---

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
std::vector<TensorType> infer(const ir::InferCall& call) {
  const char* op_name = name(op);
  std::span<const TensorType> in = call.in;
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

// One more leading axis: operands of lower rank get axes of 1 behind it.
template <const ir::OpDef& def>
std::vector<ir::Batched> batch(const ir::BatchCall& call) {
  size_t rank = 0;
  for (const ir::Batched& in : call.inputs) rank = std::max(rank, call.graph.type(in.value).rank() - (in.batched ? 1 : 0));
  std::vector<Value> values;
  for (const ir::Batched& in : call.inputs) values.push_back(lift(call.graph, in, rank));
  return {{call.graph.add(def, nullptr, std::move(values)), true}};
}

template <On on, ScalarOp op>
Kernel kernel(const ir::KernelRequest& request) {
  return elementwise_kernel(on, code_of(op, request.in, request.out[0].dtype));
}

template <ScalarOp op>
bool section_step(const ir::KernelRequest& request, ir::SectionStep& step) {
  return elementwise_step(request, code_of(op, request.in, request.out[0].dtype), step);
}

// --- gradients ---

// What a gradient function sees: the op's operands x and z, its result y(), and dy. number(c) is a constant of dy's dtype.
struct Grad {
  explicit Grad(const VjpCall& c)
      : g(c.graph), x(c.inputs[0]), z(c.inputs.size() > 1 ? c.inputs[1] : Value{}), dy(c.cotangents[0]), call(c) {}
  Graph& g;
  Value x, z, dy;
  const VjpCall& call;

  Value y() const { return call.results[0]; }
  Value number(double c) const { return scalar(g, g.type(dy).dtype, c); }
  // Gradients of the operands: broadcasting undone.
  std::vector<Value> of(Value dx) const { return {dx.valid() ? sum_to(g, dx, g.type(x).shape) : dx}; }
  std::vector<Value> of(Value dx, Value dz) const {
    return {dx.valid() ? sum_to(g, dx, g.type(x).shape) : dx, dz.valid() ? sum_to(g, dz, g.type(z).shape) : dz};
  }
};

using GradientOf = std::vector<Value> (*)(const Grad&);
template <GradientOf f>
std::vector<Value> vjp(const VjpCall& call) {
  if (!call.cotangents[0].valid()) return std::vector<Value>(call.inputs.size());
  return f(Grad(call));
}

std::vector<Value> zero(const Grad& c) { return std::vector<Value>(c.call.inputs.size()); }
std::vector<Value> grad_abs(const Grad& c) { return c.of(mul(c.g, c.dy, sign(c.g, c.x))); }
// 1 / sqrt(1 - x^2), in factors that keep their digits near 1 and -1.
Value slope_of_asin(const Grad& c) { return rsqrt(c.g, mul(c.g, add(c.g, c.number(1), c.x), sub(c.g, c.number(1), c.x))); }
std::vector<Value> grad_acos(const Grad& c) { return c.of(neg(c.g, mul(c.g, c.dy, slope_of_asin(c)))); }
std::vector<Value> grad_asin(const Grad& c) { return c.of(mul(c.g, c.dy, slope_of_asin(c))); }
// 1 / sqrt(x^2 - 1), in factors that do not overflow.
std::vector<Value> grad_acosh(const Grad& c) {
  return c.of(mul(c.g, c.dy, mul(c.g, rsqrt(c.g, sub(c.g, c.x, c.number(1))), rsqrt(c.g, add(c.g, c.x, c.number(1))))));
}
// A size to divide by so that squares neither overflow nor vanish; it has no gradient, since what it scales does not depend on it.
Value size_between(const Grad& c, Value size, double least, double most) {
  return c.g.add(def::stop_gradient, {clip(c.g, size, c.number(least), c.number(most))});
}
bool is_f64(const Grad& c) { return c.g.type(c.dy).dtype == DType::f64; }
// 1 / sqrt(x^2 + 1)
std::vector<Value> grad_asinh(const Grad& c) {
  Value size = size_between(c, abs(c.g, c.x), 1, is_f64(c) ? 1e150 : 1e18);
  Value root = rsqrt(c.g, add(c.g, square(c.g, div(c.g, c.x, size)), square(c.g, reciprocal(c.g, size))));
  return c.of(mul(c.g, c.dy, div(c.g, root, size)));
}
std::vector<Value> grad_atan(const Grad& c) { return c.of(div(c.g, c.dy, add(c.g, square(c.g, c.x), c.number(1)))); }
// By y = x and x = z: dy z / (x^2 + z^2) and -dy x / (x^2 + z^2); 0 infinitely far away, NaN at the origin, which has no slope.
std::vector<Value> grad_atan2(const Grad& c) {
  Graph& g = c.g;
  Value distance = maximum(g, abs(g, c.x), abs(g, c.z)), far = isinf(g, distance);
  Value size = size_between(c, distance, is_f64(c) ? 1e-307 : 1e-37, is_f64(c) ? 1e308 : 3e38);
  Value a = where(g, far, c.number(1), div(g, c.x, size)), b = where(g, far, c.number(1), div(g, c.z, size));
  Value square_sum = add(g, square(g, a), square(g, b)), scale = where(g, far, c.number(0), reciprocal(g, size));
  auto slope = [&](Value v) { return mul(g, c.dy, mul(g, div(g, v, square_sum), scale)); };
  return c.of(slope(b), neg(g, slope(a)));
}
std::vector<Value> grad_atanh(const Grad& c) {
  return c.of(div(c.g, c.dy, mul(c.g, sub(c.g, c.number(1), c.x), add(c.g, c.number(1), c.x))));
}
std::vector<Value> grad_cbrt(const Grad& c) { return c.of(div(c.g, c.dy, mul(c.g, c.number(3), square(c.g, c.y())))); }
// Both ends count as inside, so that a bound does not stop x from moving back; between equal bounds x does not move.
std::vector<Value> grad_clip(const Grad& c) {
  Value high = c.call.inputs[2], none = c.number(0);
  Value below = less(c.g, c.x, c.z), above = greater(c.g, maximum(c.g, c.x, c.z), high);
  Value dlow = where(c.g, above, none, where(c.g, below, c.dy, none)), dhigh = where(c.g, above, c.dy, none);
  Value held = logical_or(c.g, logical_or(c.g, below, above), greater_equal(c.g, c.z, high));
  Value dx = where(c.g, held, none, c.dy);
  return {sum_to(c.g, dx, c.g.type(c.x).shape), sum_to(c.g, dlow, c.g.type(c.z).shape), sum_to(c.g, dhigh, c.g.type(high).shape)};
}
std::vector<Value> grad_cosh(const Grad& c) { return c.of(mul(c.g, c.dy, sinh(c.g, c.x))); }
std::vector<Value> grad_add(const Grad& c) { return c.of(c.dy, c.dy); }
std::vector<Value> grad_cos(const Grad& c) { return c.of(neg(c.g, mul(c.g, c.dy, sin(c.g, c.x)))); }
std::vector<Value> grad_div(const Grad& c) {
  Value dx = div(c.g, c.dy, c.z);
  return c.of(dx, neg(c.g, mul(c.g, dx, c.y())));
}
// Whether a value is a number, not negative: then the sign of an activation's result is that of what it was given.
bool is_positive_number(const Graph& g, Value v) {
  const ir::Literal* number = ir::constant_value(g, v);
  return number && size_of(number->type.shape) == Dim(1) && number->first() >= 0;
}
std::vector<Value> grad_elu(const Grad& c) {
  return c.of(elu_grad(c.g, c.dy, c.x, c.z), mul(c.g, c.dy, expm1(c.g, minimum(c.g, c.x, c.number(0)))));
}
// Of x where z > 0, else x alpha e^z.
std::vector<Value> grad_elu_grad(const Grad& c) {
  Graph& g = c.g;
  Value alpha = c.call.inputs[2], none = c.number(0), below = exp(g, minimum(g, c.z, none));
  Value dalpha = where(g, greater(g, c.z, none), none, mul(g, mul(g, c.dy, c.x), below));
  return {sum_to(g, elu_grad(g, c.dy, c.z, alpha), g.type(c.x).shape), sum_to(g, mul(g, dalpha, alpha), g.type(c.z).shape),
          sum_to(g, dalpha, g.type(alpha).shape)};
}
std::vector<Value> grad_leaky_relu(const Grad& c) {
  Value none = c.number(0), dx;
  if (is_positive_number(c.g, c.z))
    dx = leaky_relu_grad(c.g, c.dy, c.y(), c.z);
  else
    dx = where(c.g, greater(c.g, c.x, none), c.dy, mul(c.g, c.dy, c.z));
  return c.of(dx, where(c.g, greater(c.g, c.x, none), none, mul(c.g, c.dy, c.x)));
}
std::vector<Value> grad_leaky_relu_grad(const Grad& c) {
  Value slope = c.call.inputs[2], d = where(c.g, greater(c.g, c.z, c.number(0)), c.number(0), mul(c.g, c.dy, c.x));
  return {sum_to(c.g, leaky_relu_grad(c.g, c.dy, c.z, slope), c.g.type(c.x).shape), Value{}, sum_to(c.g, d, c.g.type(slope).shape)};
}
// (2 / sqrt(pi)) e^(-x^2)
std::vector<Value> grad_erf(const Grad& c) {
  return c.of(mul(c.g, mul(c.g, c.dy, c.number(1.1283791670955126)), exp(c.g, neg(c.g, square(c.g, c.x)))));
}
std::vector<Value> grad_erfc(const Grad& c) {
  return c.of(mul(c.g, mul(c.g, c.dy, c.number(-1.1283791670955126)), exp(c.g, neg(c.g, square(c.g, c.x)))));
}
std::vector<Value> grad_exp2(const Grad& c) { return c.of(mul(c.g, c.dy, mul(c.g, c.y(), c.number(0.6931471805599453)))); }
std::vector<Value> grad_expm1(const Grad& c) { return c.of(mul(c.g, c.dy, exp(c.g, c.x))); }
// y = x - z trunc(x / z). (x - y) / z is that whole number but for its rounding; x / z may round up to the next one.
std::vector<Value> grad_fmod(const Grad& c) {
  return c.of(c.dy, neg(c.g, mul(c.g, c.dy, round(c.g, div(c.g, sub(c.g, c.x, c.y()), c.z)))));
}
std::vector<Value> grad_gelu(const Grad& c) { return c.of(gelu_grad(c.g, c.dy, c.x)); }
// Where the second derivative has vanished: from there on z takes no part, since its square overflows.
Value before(const Grad& c, double far) { return clip(c.g, c.z, c.number(-far), c.number(far)); }
// gelu'' = (2 - z^2) e^(-z^2/2) / sqrt(2 pi)
std::vector<Value> grad_gelu_grad(const Grad& c) {
  Value z2 = square(c.g, before(c, 40)), density = mul(c.g, exp(c.g, mul(c.g, z2, c.number(-0.5))), c.number(0.3989422804014327));
  return c.of(gelu_grad(c.g, c.dy, c.z), mul(c.g, mul(c.g, c.dy, c.x), mul(c.g, sub(c.g, c.number(2), z2), density)));
}
std::vector<Value> grad_gelu_tanh(const Grad& c) { return c.of(gelu_tanh_grad(c.g, c.dy, c.x)); }
// Of z s with s = sigmoid(v), v = k z + b z^3: s + z s(1-s) v', whose slope is s(1-s) (2 v' + z ((1-2s) v'^2 + v'')).
std::vector<Value> grad_gelu_tanh_grad(const Grad& c) {
  Graph& g = c.g;
  constexpr double k = 1.5957691216057308, b = 0.07135481627260025;
  Value z = before(c, 40), z2 = square(g, z), s = sigmoid(g, mul(g, z, add(g, mul(g, z2, c.number(b)), c.number(k))));
  Value rise = sub(g, s, square(g, s)), v1 = add(g, mul(g, z2, c.number(3 * b)), c.number(k)), v2 = mul(g, z, c.number(6 * b));
  Value bend = add(g, mul(g, sub(g, c.number(1), add(g, s, s)), square(g, v1)), v2);
  Value slope = mul(g, rise, add(g, add(g, v1, v1), mul(g, z, bend)));
  return c.of(gelu_tanh_grad(g, c.dy, c.z), mul(g, mul(g, c.dy, c.x), slope));
}
std::vector<Value> grad_log10(const Grad& c) { return c.of(div(c.g, mul(c.g, c.dy, c.number(0.4342944819032518)), c.x)); }
std::vector<Value> grad_log1p(const Grad& c) { return c.of(div(c.g, c.dy, add(c.g, c.x, c.number(1)))); }
std::vector<Value> grad_log2(const Grad& c) { return c.of(div(c.g, mul(c.g, c.dy, c.number(1.4426950408889634)), c.x)); }
// sigmoid(x - z) and sigmoid(z - x); the difference of equal infinities counts as 0.
std::vector<Value> grad_logaddexp(const Grad& c) {
  Value same = logical_and(c.g, equal(c.g, c.x, c.z), isinf(c.g, c.x));
  Value apart = where(c.g, same, c.number(0), sub(c.g, c.x, c.z));
  return c.of(mul(c.g, c.dy, sigmoid(c.g, apart)), mul(c.g, c.dy, sigmoid(c.g, neg(c.g, apart))));
}
std::vector<Value> grad_reciprocal(const Grad& c) { return c.of(neg(c.g, mul(c.g, c.dy, square(c.g, c.y())))); }
std::vector<Value> grad_silu(const Grad& c) { return c.of(silu_grad(c.g, c.dy, c.x)); }
// silu'' = s(1-s) (2 + z (1-2s)) with s = sigmoid(z)
std::vector<Value> grad_silu_grad(const Grad& c) {
  Graph& g = c.g;
  Value z = before(c, 1000), s = sigmoid(g, z), rise = sub(g, s, square(g, s));
  Value slope = mul(g, rise, add(g, mul(g, z, sub(g, c.number(1), add(g, s, s))), c.number(2)));
  return c.of(silu_grad(g, c.dy, c.z), mul(g, mul(g, c.dy, c.x), slope));
}
std::vector<Value> grad_sinh(const Grad& c) { return c.of(mul(c.g, c.dy, cosh(c.g, c.x))); }
std::vector<Value> grad_softplus(const Grad& c) { return c.of(softplus_grad(c.g, c.dy, c.y())); }
// Of x (1 - e^-z) by x and by z.
std::vector<Value> grad_softplus_grad(const Grad& c) {
  return c.of(softplus_grad(c.g, c.dy, c.z), mul(c.g, mul(c.g, c.dy, c.x), exp(c.g, neg(c.g, c.z))));
}
std::vector<Value> grad_tan(const Grad& c) { return c.of(mul(c.g, c.dy, add(c.g, square(c.g, c.y()), c.number(1)))); }
std::vector<Value> grad_exp(const Grad& c) { return c.of(mul(c.g, c.dy, c.y())); }
std::vector<Value> grad_log(const Grad& c) { return c.of(div(c.g, c.dy, c.x)); }
// Where both operands are equal, each gets half.
std::vector<Value> grad_extreme(const Grad& c) {
  Value ties = where(c.g, equal(c.g, c.x, c.z), mul(c.g, c.dy, c.number(0.5)), c.number(0));
  auto share = [&](Value v, Value other) {
    Value chosen = c.g[c.y()].op == &def::maximum ? greater(c.g, v, other) : less(c.g, v, other);
    return where(c.g, chosen, c.dy, ties);
  };
  return c.of(share(c.x, c.z), share(c.z, c.x));
}
// mod(x, z) = x - z floor(x / z)
std::vector<Value> grad_mod(const Grad& c) { return c.of(c.dy, neg(c.g, mul(c.g, c.dy, floor_divide(c.g, c.x, c.z)))); }
std::vector<Value> grad_mul(const Grad& c) { return c.of(mul(c.g, c.dy, c.z), mul(c.g, c.dy, c.x)); }
std::vector<Value> grad_neg(const Grad& c) { return c.of(neg(c.g, c.dy)); }
// dx = dy z x^(z-1), 0 for z = 0, also where x^-1 is no number; dz = dy y log(x), 0 where x is not positive (there x^z exists for whole z
// only) and where y has vanished.
std::vector<Value> grad_pow(const Grad& c) {
  Graph& g = c.g;
  Value one = c.number(1), none = c.number(0), base = c.x, power;
  const ir::Literal* number = ir::constant_value(g, c.z);
  if (number && number->type.rank() == 0 && number->first() != 0) {
    power = c.number(number->first() - 1);
  } else {
    power = sub(g, c.z, one);
    base = where(g, logical_and(g, equal(g, c.z, none), logical_not(g, isfinite(g, reciprocal(g, c.x)))), one, c.x);
  }
  Value dx = mul(g, c.dy, mul(g, c.z, pow(g, base, power)));
  Value counts = logical_and(g, greater(g, c.x, none), not_equal(g, c.y(), none));
  Value slope = where(g, counts, mul(g, c.y(), log(g, where(g, counts, c.x, one))), none);
  return c.of(dx, mul(g, c.dy, slope));
}
std::vector<Value> grad_relu(const Grad& c) { return c.of(relu_grad(c.g, c.dy, c.y())); }
std::vector<Value> grad_relu_grad(const Grad& c) { return c.of(relu_grad(c.g, c.dy, c.z), {}); }
std::vector<Value> grad_rsqrt(const Grad& c) { return c.of(mul(c.g, mul(c.g, c.dy, c.number(-0.5)), mul(c.g, c.y(), square(c.g, c.y())))); }
std::vector<Value> grad_sigmoid(const Grad& c) { return c.of(sigmoid_grad(c.g, c.dy, c.y())); }
// Of x z (1 - z) by x and by z.
std::vector<Value> grad_sigmoid_grad(const Grad& c) {
  return c.of(sigmoid_grad(c.g, c.dy, c.z), mul(c.g, mul(c.g, c.dy, c.x), sub(c.g, c.number(1), add(c.g, c.z, c.z))));
}
std::vector<Value> grad_sin(const Grad& c) { return c.of(mul(c.g, c.dy, cos(c.g, c.x))); }
std::vector<Value> grad_sqrt(const Grad& c) { return c.of(div(c.g, c.dy, add(c.g, c.y(), c.y()))); }
std::vector<Value> grad_square(const Grad& c) { return c.of(mul(c.g, c.dy, add(c.g, c.x, c.x))); }
std::vector<Value> grad_sub(const Grad& c) { return c.of(c.dy, neg(c.g, c.dy)); }
std::vector<Value> grad_tanh(const Grad& c) { return c.of(tanh_grad(c.g, c.dy, c.y())); }
// Of x (1 - z^2) by x and by z.
std::vector<Value> grad_tanh_grad(const Grad& c) {
  return c.of(tanh_grad(c.g, c.dy, c.z), mul(c.g, mul(c.g, c.dy, c.x), mul(c.g, c.z, c.number(-2))));
}
std::vector<Value> grad_where(const Grad& c) {
  auto share = [&](Value v, bool chosen) {
    return sum_to(c.g, chosen ? where(c.g, c.x, c.dy, c.number(0)) : where(c.g, c.x, c.number(0), c.dy), c.g.type(v).shape);
  };
  return {Value{}, share(c.call.inputs[1], true), share(c.call.inputs[2], false)};
}

constexpr const char* kGivesBool = "its result is bool: it does not change smoothly";
constexpr const char* kGivesBits = "its operands are whole numbers or bools: they do not change smoothly";

}  // namespace

// --- the table ---

#define LAMINA_DEF(op, gradient, reason, text) \
  constinit const ir::OpDef def::op{           \
      .name = #op,                             \
      .inputs = operands(ScalarOp::op),        \
      .infer = infer<ScalarOp::op>,            \
      .vjp = gradient,                         \
      .batch = batch<def::op>,                 \
      .cpu = kernel<On::cpu, ScalarOp::op>,    \
      .cuda = kernel<On::gpu, ScalarOp::op>,   \
      .section = section_step<ScalarOp::op>,   \
      .scalar_op = int(ScalarOp::op),          \
      .strided = true,                         \
      .in_place = true,                        \
      .no_vjp = reason,                        \
      .doc = text,                             \
  };
// EXACT: no element of the gradient is rounded before it is added to others, so that half types need no f32.
#define SMOOTH(op, gradient, text) LAMINA_DEF(op, (vjp_in_f32<vjp<gradient>, def::op>), nullptr, text)
#define EXACT(op, gradient, text) LAMINA_DEF(op, vjp<gradient>, nullptr, text)
#define TO_BOOL(op, text) LAMINA_DEF(op, nullptr, kGivesBool, text)
#define BITS(op, text) LAMINA_DEF(op, nullptr, kGivesBits, text)

EXACT(abs, grad_abs, "|x|")
SMOOTH(acos, grad_acos, "the angle in radians, 0 to pi, whose cosine is x")
SMOOTH(acosh, grad_acosh, "the positive number whose hyperbolic cosine is x")
EXACT(add, grad_add, "a + b")
SMOOTH(asin, grad_asin, "the angle in radians, -pi/2 to pi/2, whose sine is x")
SMOOTH(asinh, grad_asinh, "the number whose hyperbolic sine is x")
SMOOTH(atan, grad_atan, "the angle in radians, -pi/2 to pi/2, whose tangent is x")
SMOOTH(atan2, grad_atan2, "the angle in radians, -pi to pi, of the point with height a and distance b from the axes")
SMOOTH(atanh, grad_atanh, "the number whose hyperbolic tangent is x")
BITS(bitwise_and, "the bits that both have, of integers and bools")
BITS(bitwise_not, "the bits that x has not, of integers")
BITS(bitwise_or, "the bits that either has, of integers and bools")
BITS(bitwise_xor, "the bits that one of both has, of integers and bools")
SMOOTH(cbrt, grad_cbrt, "the cube root of x")
EXACT(ceil, zero, "the smallest whole number that is not below x. Its gradient is 0")
EXACT(clip, grad_clip, "x, but at least low and at most high; NaN for NaN. x gets the gradient at the bounds too")
SMOOTH(cos, grad_cos, "the cosine of x in radians")
SMOOTH(cosh, grad_cosh, "the hyperbolic cosine of x")
SMOOTH(div, grad_div, "a / b, for floating point; of integers, floor_divide is the quotient")
SMOOTH(elu, grad_elu, "x where it is positive, else alpha (exp(x) - 1)")
SMOOTH(elu_grad, grad_elu_grad, "dy where x > 0, else dy alpha exp(x): the gradient of elu at x")
TO_BOOL(equal, "a == b")
SMOOTH(erf, grad_erf, "the error function of x")
SMOOTH(erfc, grad_erfc, "1 - erf(x), exact where that is small")
SMOOTH(exp, grad_exp, "e to the power x")
SMOOTH(exp2, grad_exp2, "2 to the power x")
SMOOTH(expm1, grad_expm1, "exp(x) - 1, exact where that is small")
EXACT(floor, zero, "the largest whole number that is not above x. Its gradient is 0")
EXACT(floor_divide, zero, "a / b rounded down to a whole number; 0 for an integer divided by 0. Its gradient is 0")
SMOOTH(fmod, grad_fmod, "a - b * trunc(a / b): the rest, with the sign of a; 0 for an integer modulo 0")
SMOOTH(gelu, grad_gelu, "x times the share of the normal distribution that is below x: x (1 + erf(x / sqrt(2))) / 2")
SMOOTH(gelu_grad, grad_gelu_grad, "dy times the slope of gelu at x")
SMOOTH(gelu_tanh, grad_gelu_tanh, "gelu's approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2")
SMOOTH(gelu_tanh_grad, grad_gelu_tanh_grad, "dy times the slope of gelu_tanh at x")
TO_BOOL(greater, "a > b")
TO_BOOL(greater_equal, "a >= b")
TO_BOOL(isfinite, "whether x is neither infinite nor NaN")
TO_BOOL(isinf, "whether x is infinite")
TO_BOOL(isnan, "whether x is NaN")
SMOOTH(leaky_relu, grad_leaky_relu, "x where it is positive, else slope x")
SMOOTH(leaky_relu_grad, grad_leaky_relu_grad,
       "dy where y > 0, else slope dy: the gradient of leaky_relu from its result y, for slopes that are not negative")
TO_BOOL(less, "a < b")
TO_BOOL(less_equal, "a <= b")
SMOOTH(log, grad_log, "the natural logarithm of x")
SMOOTH(log10, grad_log10, "the decimal logarithm of x")
SMOOTH(log1p, grad_log1p, "log(1 + x), exact where x is small")
SMOOTH(log2, grad_log2, "the binary logarithm of x")
SMOOTH(logaddexp, grad_logaddexp, "log(exp(a) + exp(b)), which does not overflow")
TO_BOOL(logical_and, "both, of bools")
TO_BOOL(logical_not, "not, of bools")
TO_BOOL(logical_or, "either, of bools")
TO_BOOL(logical_xor, "one of both, of bools")
EXACT(maximum, grad_extreme, "the larger of a and b; NaN if either is. Where they are equal, each gets half the gradient")
EXACT(minimum, grad_extreme, "the smaller of a and b; NaN if either is. Where they are equal, each gets half the gradient")
SMOOTH(mod, grad_mod, "a - b * floor_divide(a, b): the rest, with the sign of b; 0 for an integer modulo 0")
SMOOTH(mul, grad_mul, "a * b")
EXACT(neg, grad_neg, "-x; of u8, modulo 256")
TO_BOOL(not_equal, "a != b")
SMOOTH(
    pow, grad_pow,
    "a to the power b. Of integers, a negative number as b is refused, and a tensor's negative elements give 0 but for the bases 1 and -1. "
    "No gradient reaches b where a <= 0")
SMOOTH(reciprocal, grad_reciprocal, "1 / x")
EXACT(relu, grad_relu, "x where it is positive, else 0; NaN for NaN")
EXACT(relu_grad, grad_relu_grad, "dy where y > 0, else 0: the gradient of relu from its result y")
EXACT(round, zero, "the nearest whole number, the even one of two. Its gradient is 0")
SMOOTH(rsqrt, grad_rsqrt, "1 / sqrt(x)")
BITS(shift_left, "a times 2 to the power b, of integers; what leaves the type is lost")
BITS(shift_right, "a divided by 2 to the power b and rounded down, of integers")
SMOOTH(sigmoid, grad_sigmoid, "1 / (1 + exp(-x))")
SMOOTH(sigmoid_grad, grad_sigmoid_grad, "dy * y * (1 - y): the gradient of sigmoid from its result y")
EXACT(sign, zero, "-1, 0 or 1; NaN for NaN. Its gradient is 0")
SMOOTH(silu, grad_silu, "x sigmoid(x)")
SMOOTH(silu_grad, grad_silu_grad, "dy times the slope of silu at x")
SMOOTH(sin, grad_sin, "the sine of x in radians")
SMOOTH(sinh, grad_sinh, "the hyperbolic sine of x")
SMOOTH(softplus, grad_softplus, "log(1 + exp(x))")
SMOOTH(softplus_grad, grad_softplus_grad, "dy (1 - exp(-y)): the gradient of softplus from its result y")
SMOOTH(sqrt, grad_sqrt, "the square root of x")
SMOOTH(square, grad_square, "x * x")
EXACT(sub, grad_sub, "a - b")
SMOOTH(tan, grad_tan, "the tangent of x in radians")
SMOOTH(tanh, grad_tanh, "the hyperbolic tangent of x")
SMOOTH(tanh_grad, grad_tanh_grad, "dy * (1 - y * y): the gradient of tanh from its result y")
EXACT(trunc, zero, "x without its fraction. Its gradient is 0")
EXACT(where, grad_where, "a where the condition holds, else b")

}  // namespace lamina::ops
