// Half types in functions built from several ops: computed in f32 and rounded once at the end. Other types are unchanged.
#pragma once
#include "graph/functions/op_functions.h"

namespace lamina {

inline Tensor widened(const Operand& x) {
  Tensor t = x.resolve();
  return is_half(t.dtype()) ? astype(Operand(t, x.at()), DType::f32) : t;
}
inline Tensor narrowed(const Tensor& y, DType dtype, CallSite at) { return is_half(dtype) ? astype(Operand(y, at), dtype) : y; }

// f(x), where f returns x's dtype.
template <class F>
Tensor in_f32(const Operand& x, F f) {
  const Tensor t = x.resolve();
  return narrowed(f(Operand(widened(Operand(t, x.at())), x.at())), t.dtype(), x.at());
}
// f(a, b) for two operands of one dtype.
template <class F>
Tensor in_f32(const char* op, const Operand& a, const Operand& b, F f) {
  const auto [left, right] = resolve_pair(op, a, b);
  const CallSite at = a.at();
  return narrowed(f(Operand(widened(Operand(left, at)), at), Operand(widened(Operand(right, at)), at)), left.dtype(), at);
}

}  // namespace lamina
