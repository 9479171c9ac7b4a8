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
  OP(abs, 1) OP(add, 2) OP(cast, 1) OP(cos, 1) OP(div, 2) OP(equal, 2) OP(exp, 1) OP(floor_divide, 2) OP(greater, 2)              \
  OP(greater_equal, 2) OP(less, 2) OP(less_equal, 2) OP(log, 1) OP(logical_and, 2) OP(logical_not, 1) OP(logical_or, 2)           \
  OP(maximum, 2) OP(minimum, 2) OP(mod, 2) OP(mul, 2) OP(neg, 1) OP(not_equal, 2) OP(pow, 2) OP(relu, 1) OP(relu_grad, 2)         \
  OP(rsqrt, 1) OP(sigmoid, 1) OP(sigmoid_grad, 2) OP(sign, 1) OP(sin, 1) OP(sqrt, 1) OP(square, 1) OP(sub, 2) OP(tanh, 1)         \
  OP(tanh_grad, 2) OP(where, 3)
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
    case ScalarOp::less:
    case ScalarOp::less_equal:
    case ScalarOp::logical_and:
    case ScalarOp::logical_not:
    case ScalarOp::logical_or: return true;
    default: return false;
  }
}
// Which types an op computes in.
enum class Domain : unsigned char { floating, numeric, any, boolean };  // numeric: integers and floating; any: bool too
LAMINA_SCALAR constexpr Domain domain(ScalarOp op) {
  switch (op) {
    case ScalarOp::cos:
    case ScalarOp::div:
    case ScalarOp::exp:
    case ScalarOp::log:
    case ScalarOp::rsqrt:
    case ScalarOp::sigmoid:
    case ScalarOp::sigmoid_grad:
    case ScalarOp::sin:
    case ScalarOp::sqrt:
    case ScalarOp::tanh:
    case ScalarOp::tanh_grad: return Domain::floating;
    case ScalarOp::logical_and:
    case ScalarOp::logical_not:
    case ScalarOp::logical_or: return Domain::boolean;
    case ScalarOp::cast:
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::greater:
    case ScalarOp::greater_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal:
    case ScalarOp::where: return Domain::any;
    default: return Domain::numeric;
  }
}

}  // namespace lamina::kernels
