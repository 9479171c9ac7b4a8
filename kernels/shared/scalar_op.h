// ScalarOp: the names of the scalar operations and what types they take. What they compute is in scalar_ops.h. Includes nothing.
#pragma once

#if defined(__CUDACC__)
#define LAMINA_SCALAR __host__ __device__ __forceinline__
#else
#define LAMINA_SCALAR [[gnu::always_inline]] inline
#endif

// name, operands; sorted.
// clang-format off
#define LAMINA_SCALAR_OPS(OP)                                                                                                     \
  OP(abs, 1) OP(acos, 1) OP(acosh, 1) OP(add, 2) OP(asin, 1) OP(asinh, 1) OP(atan, 1) OP(atan2, 2) OP(atanh, 1)                   \
  OP(bitwise_and, 2) OP(bitwise_not, 1) OP(bitwise_or, 2) OP(bitwise_xor, 2) OP(cast, 1) OP(cbrt, 1) OP(ceil, 1) OP(clip, 3)      \
  OP(cos, 1) OP(cosh, 1) OP(div, 2) OP(elu, 2) OP(elu_grad, 3) OP(equal, 2) OP(erf, 1) OP(erfc, 1) OP(exp, 1) OP(exp2, 1)         \
  OP(expm1, 1) OP(floor, 1) OP(floor_divide, 2) OP(fmod, 2) OP(gelu, 1) OP(gelu_grad, 2) OP(gelu_tanh, 1) OP(gelu_tanh_grad, 2)   \
  OP(greater, 2) OP(greater_equal, 2) OP(isfinite, 1) OP(isinf, 1) OP(isnan, 1) OP(leaky_relu, 2) OP(leaky_relu_grad, 3)          \
  OP(less, 2) OP(less_equal, 2) OP(log, 1) OP(log10, 1) OP(log1p, 1) OP(log2, 1) OP(logaddexp, 2) OP(logical_and, 2)              \
  OP(logical_not, 1) OP(logical_or, 2) OP(logical_xor, 2) OP(maximum, 2) OP(minimum, 2) OP(mod, 2) OP(mul, 2) OP(neg, 1)          \
  OP(not_equal, 2) OP(pow, 2) OP(reciprocal, 1) OP(relu, 1) OP(relu_grad, 2) OP(round, 1) OP(rsqrt, 1) OP(shift_left, 2)          \
  OP(shift_right, 2) OP(sigmoid, 1) OP(sigmoid_grad, 2) OP(sign, 1) OP(silu, 1) OP(silu_grad, 2) OP(sin, 1) OP(sinh, 1)           \
  OP(softplus, 1) OP(softplus_grad, 2) OP(sqrt, 1) OP(square, 1) OP(sub, 2) OP(tan, 1) OP(tanh, 1) OP(tanh_grad, 2)               \
  OP(trunc, 1) OP(where, 3)
// clang-format on

namespace lamina::kernels {

enum class ScalarOp : unsigned char {
#define LAMINA_OP(name, operands) name,
  LAMINA_SCALAR_OPS(LAMINA_OP)
#undef LAMINA_OP
};
#define LAMINA_OP(name, operands) +1
inline constexpr int kScalarOps = LAMINA_SCALAR_OPS(LAMINA_OP);
#undef LAMINA_OP

LAMINA_SCALAR constexpr const char* name(ScalarOp op) {
  switch (op) {
#define LAMINA_OP(name, operands) \
  case ScalarOp::name: return #name;
    LAMINA_SCALAR_OPS(LAMINA_OP)
#undef LAMINA_OP
  }
  return "?";
}
LAMINA_SCALAR constexpr int operands(ScalarOp op) {
  switch (op) {
#define LAMINA_OP(name, operands) \
  case ScalarOp::name: return operands;
    LAMINA_SCALAR_OPS(LAMINA_OP)
#undef LAMINA_OP
  }
  return 0;
}
// The result is a bool, whatever the operands are.
LAMINA_SCALAR constexpr bool gives_bool(ScalarOp op) {
  switch (op) {
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::greater:
    case ScalarOp::greater_equal:
    case ScalarOp::isfinite:
    case ScalarOp::isinf:
    case ScalarOp::isnan:
    case ScalarOp::less:
    case ScalarOp::less_equal:
    case ScalarOp::logical_and:
    case ScalarOp::logical_not:
    case ScalarOp::logical_or:
    case ScalarOp::logical_xor: return true;
    default: return false;
  }
}
// Which types an op computes in.
enum class Domain : unsigned char {
  floating,
  numeric,  // integers and floating
  any,      // bool too
  integer,
  bits,  // integers and bool
  boolean,
};
LAMINA_SCALAR constexpr Domain domain(ScalarOp op) {
  switch (op) {
    case ScalarOp::abs:
    case ScalarOp::add:
    case ScalarOp::ceil:
    case ScalarOp::clip:
    case ScalarOp::floor:
    case ScalarOp::floor_divide:
    case ScalarOp::fmod:
    case ScalarOp::isfinite:
    case ScalarOp::isinf:
    case ScalarOp::isnan:
    case ScalarOp::maximum:
    case ScalarOp::minimum:
    case ScalarOp::mod:
    case ScalarOp::mul:
    case ScalarOp::neg:
    case ScalarOp::pow:
    case ScalarOp::relu:
    case ScalarOp::relu_grad:
    case ScalarOp::round:
    case ScalarOp::sign:
    case ScalarOp::square:
    case ScalarOp::sub:
    case ScalarOp::trunc: return Domain::numeric;
    case ScalarOp::cast:
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::greater:
    case ScalarOp::greater_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal:
    case ScalarOp::where: return Domain::any;
    case ScalarOp::bitwise_not:
    case ScalarOp::shift_left:
    case ScalarOp::shift_right: return Domain::integer;
    case ScalarOp::bitwise_and:
    case ScalarOp::bitwise_or:
    case ScalarOp::bitwise_xor: return Domain::bits;
    case ScalarOp::logical_and:
    case ScalarOp::logical_not:
    case ScalarOp::logical_or:
    case ScalarOp::logical_xor: return Domain::boolean;
    default: return Domain::floating;
  }
}
// Takes much longer than an addition: a polynomial, or a call of the C library.
LAMINA_SCALAR constexpr bool is_long(ScalarOp op) {
  switch (op) {
    case ScalarOp::div:
    case ScalarOp::leaky_relu:
    case ScalarOp::leaky_relu_grad:
    case ScalarOp::reciprocal:
    case ScalarOp::rsqrt:
    case ScalarOp::sigmoid_grad:
    case ScalarOp::sqrt:
    case ScalarOp::tanh_grad: return false;
    case ScalarOp::floor_divide:
    case ScalarOp::fmod:
    case ScalarOp::mod:
    case ScalarOp::pow: return true;
    default: return domain(op) == Domain::floating;
  }
}

}  // namespace lamina::kernels
