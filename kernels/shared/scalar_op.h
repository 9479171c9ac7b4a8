// ScalarOp: the elementwise ops as an enum, with the properties that kernels need. scalar_ops.h has their computations.
#pragma once

#if defined(__CUDACC__)
#define LAMINA_SCALAR __host__ __device__ __forceinline__
#else
#define LAMINA_SCALAR [[gnu::always_inline]] inline
#endif

namespace lamina::kernels {

enum class ScalarOp : unsigned char {
#define ELEMENTWISE(name, ...) name,
#include "kernels/shared/elementwise_ops.inc"
  cast,  // the op astype
};
inline constexpr int kScalarOps = int(ScalarOp::cast) + 1;

// The types an op computes in.
enum class Domain : unsigned char {
  floating,
  numeric,  // integers and floating
  any,      // bool too
  integer,
  bits,  // integers and bool
  boolean,
};
enum class ScalarResult : unsigned char { same, boolean };
enum class ScalarCost : unsigned char { quick, slow };
struct ScalarOpRow {
  const char* name;
  int operands;
  Domain domain;
  ScalarResult result;
  ScalarCost cost;
};

LAMINA_SCALAR constexpr ScalarOpRow row_of(ScalarOp op) {
  switch (op) {
#define ELEMENTWISE(name, operands, domain, result, cost, ...) \
  case ScalarOp::name: return {#name, operands, Domain::domain, ScalarResult::result, ScalarCost::cost};
#include "kernels/shared/elementwise_ops.inc"
    case ScalarOp::cast: return {"cast", 1, Domain::any, ScalarResult::same, ScalarCost::quick};
  }
  return {"?", 0, Domain::any, ScalarResult::same, ScalarCost::quick};
}
LAMINA_SCALAR constexpr const char* name(ScalarOp op) { return row_of(op).name; }
LAMINA_SCALAR constexpr int operands(ScalarOp op) { return row_of(op).operands; }
LAMINA_SCALAR constexpr Domain domain(ScalarOp op) { return row_of(op).domain; }
// The result is a bool for all operand types.
LAMINA_SCALAR constexpr bool gives_bool(ScalarOp op) { return row_of(op).result == ScalarResult::boolean; }
// Takes much longer than an addition: a polynomial, or a call of the C library.
LAMINA_SCALAR constexpr bool is_slow(ScalarOp op) { return row_of(op).cost == ScalarCost::slow; }

// scalar::op(a, ...) with the op's number of operands, for ELEMENTWISE(name, operands, ...) within a function.
#define LAMINA_SCALAR_CALL(name, operands) LAMINA_SCALAR_CALL_##operands(name)
#define LAMINA_SCALAR_CALL_1(name) lamina::kernels::scalar::name(a)
#define LAMINA_SCALAR_CALL_2(name) lamina::kernels::scalar::name(a, b)
#define LAMINA_SCALAR_CALL_3(name) lamina::kernels::scalar::name(a, b, c)
// The same for an activation or its gradient, for ACTIVATION(name, slope, parameter); passes alpha if it takes one.
#define LAMINA_ACTIVATION_CALL(parameter, name, ...) LAMINA_ACTIVATION_CALL_##parameter(name, __VA_ARGS__)
#define LAMINA_ACTIVATION_CALL_plain(name, ...) lamina::kernels::scalar::name(__VA_ARGS__)
#define LAMINA_ACTIVATION_CALL_alpha(name, ...) lamina::kernels::scalar::name(__VA_ARGS__, alpha)

}  // namespace lamina::kernels
