// The elementwise ops, a row each: operands broadcast as in NumPy and have one dtype; the result has it too, or is bool.
// kernels/shared/scalar_ops.h says what each computes.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"
#include "graph/ops/region_code.h"

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
    case Domain::any: return;
  }
}

// The type that neither operand loses range by becoming.
DType wider(DType a, DType b) {
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  return size_of(a) >= size_of(b) && a != DType::boolean ? a : b;
}

void require_one_dtype(const char* op_name, const char* first, const TensorType& a, const char* second, const TensorType& b) {
  if (a.dtype == b.dtype) return;
  const DType target = wider(a.dtype, b.dtype);
  throw Error(ErrorKind::type, {.what = cat(op_name, ": operands are ", a, " and ", b),
                                .where = "",
                                .why = "they must have one dtype: tensors are never converted silently",
                                .fix = cat("convert the ", target == a.dtype ? second : first, ": .astype('", numpy_name(target), "')")});
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
    require_one_dtype(op_name, "second operand", in[1], "third operand", in[2]);
    Shape shape = broadcast_types(op_name, in[0], in[1], in[0].shape);
    shape = broadcast_types(op_name, {in[1].dtype, shape}, in[2], shape);
    require_rank(op_name, shape);
    return {{in[1].dtype, shape}};
  } else {
    if (in.size() == 2) require_one_dtype(op_name, "first operand", in[0], "second operand", in[1]);
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

template <ScalarOp op>
Kernel cpu(const ir::KernelRequest& request) {
  return elementwise_kernel(code_of(op, request.in, request.out[0].dtype));
}

template <ScalarOp op>
bool section_step(const ir::KernelRequest& request, ir::SectionStep& step) {
  return elementwise_step(request, code_of(op, request.in, request.out[0].dtype), step);
}

// --- gradients ---

// What a gradient function sees: the op's operands x and z, its result y, and dy. number(c) is a constant of x's dtype.
struct Grad {
  explicit Grad(const VjpCall& c)
      : g(c.graph), x(c.inputs[0]), z(c.inputs.size() > 1 ? c.inputs[1] : Value{}), y(c.results[0]), dy(c.cotangents[0]), call(c) {}
  Graph& g;
  Value x, z, y, dy;
  const VjpCall& call;

  Value number(double c) const { return scalar(g, g.type(y).dtype, c); }
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
std::vector<Value> grad_add(const Grad& c) { return c.of(c.dy, c.dy); }
std::vector<Value> grad_cos(const Grad& c) { return c.of(neg(c.g, mul(c.g, c.dy, sin(c.g, c.x)))); }
std::vector<Value> grad_div(const Grad& c) {
  Value dx = div(c.g, c.dy, c.z);
  return c.of(dx, neg(c.g, mul(c.g, dx, c.y)));
}
std::vector<Value> grad_exp(const Grad& c) { return c.of(mul(c.g, c.dy, c.y)); }
std::vector<Value> grad_log(const Grad& c) { return c.of(div(c.g, c.dy, c.x)); }
// Where both operands are equal, each gets half.
std::vector<Value> grad_extreme(const Grad& c) {
  Value ties = where(c.g, equal(c.g, c.x, c.z), mul(c.g, c.dy, c.number(0.5)), c.number(0));
  auto share = [&](Value v, Value other) {
    Value chosen = c.g[c.y].op == &def::maximum ? greater(c.g, v, other) : less(c.g, v, other);
    return where(c.g, chosen, c.dy, ties);
  };
  return c.of(share(c.x, c.z), share(c.z, c.x));
}
// mod(x, z) = x - z floor(x / z)
std::vector<Value> grad_mod(const Grad& c) { return c.of(c.dy, neg(c.g, mul(c.g, c.dy, floor_divide(c.g, c.x, c.z)))); }
std::vector<Value> grad_mul(const Grad& c) { return c.of(mul(c.g, c.dy, c.z), mul(c.g, c.dy, c.x)); }
std::vector<Value> grad_neg(const Grad& c) { return c.of(neg(c.g, c.dy)); }
// dx = dy z x^(z-1), 0 for z = 0; dz = dy y log(x), 0 where x is not positive: there x^z exists for whole z only.
std::vector<Value> grad_pow(const Grad& c) {
  Value one = c.number(1), none = c.number(0);
  Value power = where(c.g, equal(c.g, c.z, none), one, sub(c.g, c.z, one));
  Value dx = mul(c.g, c.dy, mul(c.g, c.z, pow(c.g, c.x, power)));
  Value positive = greater(c.g, c.x, none);
  Value slope = where(c.g, positive, mul(c.g, c.y, log(c.g, where(c.g, positive, c.x, one))), none);
  return c.of(dx, mul(c.g, c.dy, slope));
}
std::vector<Value> grad_relu(const Grad& c) { return c.of(relu_grad(c.g, c.dy, c.y)); }
std::vector<Value> grad_relu_grad(const Grad& c) { return c.of(relu_grad(c.g, c.dy, c.z), {}); }
std::vector<Value> grad_rsqrt(const Grad& c) { return c.of(mul(c.g, mul(c.g, c.dy, c.number(-0.5)), mul(c.g, c.y, square(c.g, c.y)))); }
std::vector<Value> grad_sigmoid(const Grad& c) { return c.of(sigmoid_grad(c.g, c.dy, c.y)); }
// Of x z (1 - z) by x and by z.
std::vector<Value> grad_sigmoid_grad(const Grad& c) {
  return c.of(sigmoid_grad(c.g, c.dy, c.z), mul(c.g, mul(c.g, c.dy, c.x), sub(c.g, c.number(1), add(c.g, c.z, c.z))));
}
std::vector<Value> grad_sin(const Grad& c) { return c.of(mul(c.g, c.dy, cos(c.g, c.x))); }
std::vector<Value> grad_sqrt(const Grad& c) { return c.of(div(c.g, c.dy, add(c.g, c.y, c.y))); }
std::vector<Value> grad_square(const Grad& c) { return c.of(mul(c.g, c.dy, add(c.g, c.x, c.x))); }
std::vector<Value> grad_sub(const Grad& c) { return c.of(c.dy, neg(c.g, c.dy)); }
std::vector<Value> grad_tanh(const Grad& c) { return c.of(tanh_grad(c.g, c.dy, c.y)); }
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
constexpr const char* kNoCuda = "kernels for GPUs come with the CUDA backend";

}  // namespace

// --- the table ---

#define LAMINA_DEF(op, gradient, reason, text) \
  constinit const ir::OpDef def::op{           \
      .name = #op,                             \
      .inputs = operands(ScalarOp::op),        \
      .infer = infer<ScalarOp::op>,            \
      .vjp = gradient,                         \
      .batch = batch<def::op>,                 \
      .cpu = cpu<ScalarOp::op>,                \
      .section = section_step<ScalarOp::op>,   \
      .scalar_op = int(ScalarOp::op),          \
      .strided = true,                         \
      .in_place = true,                        \
      .no_vjp = reason,                        \
      .no_cuda = kNoCuda,                      \
      .doc = text,                             \
  };
#define SMOOTH(op, gradient, text) LAMINA_DEF(op, vjp<gradient>, nullptr, text)
#define TO_BOOL(op, text) LAMINA_DEF(op, nullptr, kGivesBool, text)

SMOOTH(abs, grad_abs, "|x|")
SMOOTH(add, grad_add, "a + b")
SMOOTH(cos, grad_cos, "the cosine of x in radians")
SMOOTH(div, grad_div, "a / b, for floating point; of integers, floor_divide is the quotient")
TO_BOOL(equal, "a == b")
SMOOTH(exp, grad_exp, "e to the power x")
SMOOTH(floor_divide, zero, "a / b rounded down to a whole number; 0 for an integer divided by 0. Its gradient is 0")
TO_BOOL(greater, "a > b")
TO_BOOL(greater_equal, "a >= b")
TO_BOOL(less, "a < b")
TO_BOOL(less_equal, "a <= b")
SMOOTH(log, grad_log, "the natural logarithm of x")
TO_BOOL(logical_and, "both, of bools")
TO_BOOL(logical_not, "not, of bools")
TO_BOOL(logical_or, "either, of bools")
SMOOTH(maximum, grad_extreme, "the larger of a and b; NaN if either is. Where they are equal, each gets half the gradient")
SMOOTH(minimum, grad_extreme, "the smaller of a and b; NaN if either is. Where they are equal, each gets half the gradient")
SMOOTH(mod, grad_mod, "a - b * floor_divide(a, b): the rest, with the sign of b; 0 for an integer modulo 0")
SMOOTH(mul, grad_mul, "a * b")
SMOOTH(neg, grad_neg, "-x; of u8, modulo 256")
TO_BOOL(not_equal, "a != b")
SMOOTH(pow, grad_pow,
       "a to the power b; an integer to a negative power is 0 but for the bases 1 and -1. No gradient reaches b where a <= 0")
SMOOTH(relu, grad_relu, "x where it is positive, else 0; NaN for NaN")
SMOOTH(relu_grad, grad_relu_grad, "dy where y > 0, else 0: the gradient of relu from its result y")
SMOOTH(rsqrt, grad_rsqrt, "1 / sqrt(x)")
SMOOTH(sigmoid, grad_sigmoid, "1 / (1 + exp(-x))")
SMOOTH(sigmoid_grad, grad_sigmoid_grad, "dy * y * (1 - y): the gradient of sigmoid from its result y")
SMOOTH(sign, zero, "-1, 0 or 1; NaN for NaN. Its gradient is 0")
SMOOTH(sin, grad_sin, "the sine of x in radians")
SMOOTH(sqrt, grad_sqrt, "the square root of x")
SMOOTH(square, grad_square, "x * x")
SMOOTH(sub, grad_sub, "a - b")
SMOOTH(tanh, grad_tanh, "the hyperbolic tangent of x")
SMOOTH(tanh_grad, grad_tanh_grad, "dy * (1 - y * y): the gradient of tanh from its result y")
SMOOTH(where, grad_where, "a where the condition holds, else b")

}  // namespace lamina::ops
