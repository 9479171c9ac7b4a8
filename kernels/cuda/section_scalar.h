// The scalar operations of a section's elementwise programs: one element, as bits.
#pragma once
#include "kernels/cuda/section_block.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda::resident {

#if defined(__CUDA_ARCH__)
LAMINA_DEVICE double double_of(unsigned long long bits) { return __longlong_as_double((long long)bits); }
LAMINA_DEVICE unsigned long long bits_of_double(double v) { return (unsigned long long)__double_as_longlong(v); }
#else
LAMINA_DEVICE double double_of(unsigned long long bits) { return __builtin_bit_cast(double, bits); }
LAMINA_DEVICE unsigned long long bits_of_double(double v) { return __builtin_bit_cast(unsigned long long, v); }
#endif
// A number's bits: 4 bytes for f32, i32 and bool, 8 for i64 and f64.
template <class T>
LAMINA_DEVICE T as(unsigned long long bits) {
  if constexpr (scalar::is_float<T> && sizeof(T) == 8)
    return double_of(bits);
  else if constexpr (scalar::is_float<T>)
    return scalar::float_of(int(unsigned(bits)));
  else
    return T(bits);
}
template <class T>
LAMINA_DEVICE unsigned long long bits_of(T v) {
  if constexpr (scalar::is_float<T> && sizeof(T) == 8)
    return bits_of_double(v);
  else if constexpr (scalar::is_float<T>)
    return unsigned(scalar::bits_of(v));
  else if constexpr (sizeof(T) == 8)
    return (unsigned long long)v;
  else
    return unsigned(v);
}

template <ScalarOp op, class T>
LAMINA_DEVICE unsigned long long apply_one([[maybe_unused]] unsigned long long x, [[maybe_unused]] T a, [[maybe_unused]] T b,
                                           [[maybe_unused]] T c) {
  constexpr DType type = scalar::is_float<T> ? (sizeof(T) == 4 ? DType::f32 : DType::f64)
                         : sizeof(T) == 1    ? DType::boolean
                         : sizeof(T) == 4    ? DType::i32
                                             : DType::i64;
  if constexpr (op == ScalarOp::cast || !section::block_computes(op, type)) {
    return 0;
  } else if constexpr (op == ScalarOp::where) {
    return bits_of(scalar::where(scalar::Bool(x), b, c));
  } else {
#define ELEMENTWISE(name, operands, ...) \
  if constexpr (op == ScalarOp::name) return bits_of(LAMINA_SCALAR_CALL(name, operands));
#include "kernels/shared/elementwise_ops.inc"
  }
}
template <class T>
LAMINA_CALLED unsigned long long apply(ScalarOp op, unsigned long long x, unsigned long long y, unsigned long long z) {
  const T a = as<T>(x), b = as<T>(y), c = as<T>(z);
  switch (op) {
#define ELEMENTWISE(name, ...) \
  case ScalarOp::name: return apply_one<ScalarOp::name, T>(x, a, b, c);
#include "kernels/shared/elementwise_ops.inc"
    case ScalarOp::cast: break;
  }
  return 0;
}
template <class From>
LAMINA_DEVICE unsigned long long convert(From v, DType to) {
  switch (to) {
    case DType::boolean: return bits_of(scalar::to_bool(v));
    case DType::i32: return bits_of(scalar::cast<int>(v));
    case DType::i64: return bits_of(scalar::cast<long long>(v));
    case DType::f64: return bits_of(scalar::cast<double>(v));
    default: return bits_of(scalar::cast<float>(v));
  }
}
LAMINA_CALLED unsigned long long convert(unsigned long long x, DType from, DType to) {
  switch (from) {
    case DType::boolean: return convert(scalar::Bool(x), to);
    case DType::i32: return convert(as<int>(x), to);
    case DType::i64: return convert(as<long long>(x), to);
    case DType::f64: return convert(as<double>(x), to);
    default: return convert(as<float>(x), to);
  }
}
LAMINA_CALLED unsigned long long calculate(ScalarOp op, DType type, DType result, unsigned long long x, unsigned long long y,
                                           unsigned long long z) {
  if (type == DType::f32 && op == ScalarOp::div) return bits_of(as<float>(x) / as<float>(y));
  if (op == ScalarOp::cast) return convert(x, type, result);
  if (type == DType::f64) return apply<double>(op, x, y, z);
  if (type == DType::i64) return apply<long long>(op, x, y, z);
  if (type == DType::f32) return apply<float>(op, x, y, z);
  if (type == DType::i32) return apply<int>(op, x, y, z);
  return apply<scalar::Bool>(op, x, y, z);
}

}  // namespace lamina::kernels::cuda::resident
