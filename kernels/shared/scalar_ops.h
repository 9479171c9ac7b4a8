// Scalar operations: the computation of every elementwise op on one element. Compiled by g++ and nvcc, so it includes nothing else.
//
// T is unsigned char (a bool, 0 or 1, or a u8), a signed integer, float or double. Half types compute in float and are rounded once
// after each operation. The rules follow NumPy:
//   integers wrap; division by zero and INT_MIN / -1 never trap: floor_divide(x, 0) = mod(x, 0) = 0, INT_MIN // -1 = INT_MIN
//   floor_divide and mod round towards minus infinity: mod has the divisor's sign; fmod has the dividend's
//   a shift by the type's width or more, or by a negative number, gives 0, or -1 for a right shift of a negative number
//   round goes to even on ties; floor, ceil, round and trunc leave integers unchanged
//   an integer to a negative power is 0, except for the bases 1 and -1
//   maximum, minimum, clip, relu, sign and abs pass NaN on
// Scalar and vector code give the same floats; scalar_math.h and activations.h give the accuracy.
#pragma once
#include "kernels/shared/activations.h"
#include "kernels/shared/conversions.h"

namespace lamina::kernels {
namespace scalar {
#if defined(LAMINA_ISA)
inline namespace LAMINA_ISA {  // one copy per instruction set: the linker must not merge them
#endif

// The type in which integers are computed: wide enough, and wrapping.
template <bool wide>
struct WrapType {
  using type = unsigned int;
};
template <>
struct WrapType<true> {
  using type = unsigned long long;
};
template <class T>
using Wrap = typename WrapType<(sizeof(T) > 4)>::type;

// --- arithmetic ---
template <class T>
LAMINA_SCALAR T add(T a, T b) {
  if constexpr (is_float<T>)
    return a + b;
  else
    return T(Wrap<T>(a) + Wrap<T>(b));
}
template <class T>
LAMINA_SCALAR T sub(T a, T b) {
  if constexpr (is_float<T>)
    return a - b;
  else
    return T(Wrap<T>(a) - Wrap<T>(b));
}
template <class T>
LAMINA_SCALAR T mul(T a, T b) {
  if constexpr (is_float<T>)
    return a * b;
  else
    return T(Wrap<T>(a) * Wrap<T>(b));
}
template <class T>
LAMINA_SCALAR T div(T a, T b) {
  return a / b;
}
template <class T>
LAMINA_SCALAR T neg(T a) {
  if constexpr (is_float<T>)
    return -a;
  else
    return T(Wrap<T>(0) - Wrap<T>(a));
}
template <class T>
LAMINA_SCALAR T square(T a) {
  return mul(a, a);
}
template <class T>
LAMINA_SCALAR T abs(T a) {
  if constexpr (is_float<T>)
    return absolute(a);
  else if constexpr (is_signed<T>)
    return a < 0 ? neg(a) : a;
  else
    return a;
}
template <class T>
LAMINA_SCALAR T sign(T a) {
  if constexpr (is_float<T>)
    return a > 0 ? T(1) : a < 0 ? T(-1) : a == 0 ? T(0) : a;
  else if constexpr (is_signed<T>)
    return T((a > 0) - (a < 0));
  else
    return T(a != 0);
}
template <class T>
LAMINA_SCALAR T maximum(T a, T b) {
  if constexpr (is_float<T>) {
    T larger = a > b ? a : b;  // b if either is NaN
    return a != a ? a : larger;
  } else {
    return a > b ? a : b;
  }
}
template <class T>
LAMINA_SCALAR T minimum(T a, T b) {
  if constexpr (is_float<T>) {
    T smaller = a < b ? a : b;
    return a != a ? a : smaller;
  } else {
    return a < b ? a : b;
  }
}
template <class T>
LAMINA_SCALAR T mod(T a, T b) {
  if constexpr (is_float<T>) {
    T r = remainder_of(a, b);  // the dividend's sign
    if (r == 0) return with_sign_of(T(0), b);
    return (r < 0) != (b < 0) ? r + b : r;
  } else if constexpr (is_signed<T>) {
    if (b == 0 || b == T(-1)) return 0;
    T r = T(a % b);
    return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
  } else {
    return b == 0 ? T(0) : T(a % b);
  }
}
template <class T>
LAMINA_SCALAR T fmod(T a, T b) {
  if constexpr (is_float<T>) {
    return remainder_of(a, b);
  } else if constexpr (is_signed<T>) {
    return b == 0 || b == T(-1) ? T(0) : T(a % b);
  } else {
    return b == 0 ? T(0) : T(a % b);
  }
}
template <class T>
LAMINA_SCALAR T clip(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}
template <class T>
LAMINA_SCALAR T reciprocal(T x) {
  return T(1) / x;
}
#define LAMINA_ROUNDING(name, function) \
  template <class T>                    \
  LAMINA_SCALAR T name(T x) {           \
    if constexpr (is_float<T>)          \
      return function(x);               \
    else                                \
      return x;                         \
  }
LAMINA_ROUNDING(ceil, round_up)
LAMINA_ROUNDING(floor, round_down)
LAMINA_ROUNDING(round, round_to_even)
LAMINA_ROUNDING(trunc, cut_fraction)
#undef LAMINA_ROUNDING

template <class T>
LAMINA_SCALAR T floor_divide(T a, T b) {
  if constexpr (is_float<T>) {
    if (b == 0) return a / b;
    T r = remainder_of(a, b), q = (a - r) / b;  // an integer, up to rounding
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return with_sign_of(T(0), a / b);
    T down = round_down(q);
    return q - down > T(0.5) ? down + 1 : down;
  } else if constexpr (is_signed<T>) {
    if (b == 0) return 0;
    if (b == T(-1)) return neg(a);
    T q = T(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? T(q - 1) : q;
  } else {
    return b == 0 ? T(0) : T(a / b);
  }
}

// --- comparisons and logic ---
#define LAMINA_TO_BOOL(name, sign)    \
  template <class T>                  \
  LAMINA_SCALAR Bool name(T a, T b) { \
    return a sign b;                  \
  }
LAMINA_TO_BOOL(equal, ==)
LAMINA_TO_BOOL(not_equal, !=)
LAMINA_TO_BOOL(greater, >)
LAMINA_TO_BOOL(greater_equal, >=)
LAMINA_TO_BOOL(less, <)
LAMINA_TO_BOOL(less_equal, <=)
LAMINA_TO_BOOL(logical_and, &)
LAMINA_TO_BOOL(logical_or, |)
#undef LAMINA_TO_BOOL
template <class T>
LAMINA_SCALAR Bool logical_not(T a) {
  return a ^ 1;
}
template <class T>
LAMINA_SCALAR Bool logical_xor(T a, T b) {
  return a ^ b;
}
// x - x is 0 for a finite x, otherwise NaN.
template <class T>
LAMINA_SCALAR Bool isfinite(T x) {
  return x - x == 0;
}
template <class T>
LAMINA_SCALAR Bool isnan(T x) {
  return x != x;
}
template <class T>
LAMINA_SCALAR Bool isinf(T x) {
  return x == x && !(x - x == 0);
}
template <class T>
LAMINA_SCALAR T where(Bool c, T a, T b) {
  return c ? a : b;
}

// --- bits ---
template <class T>
LAMINA_SCALAR T bitwise_and(T a, T b) {
  return T(a & b);
}
template <class T>
LAMINA_SCALAR T bitwise_or(T a, T b) {
  return T(a | b);
}
template <class T>
LAMINA_SCALAR T bitwise_xor(T a, T b) {
  return T(a ^ b);
}
template <class T>
LAMINA_SCALAR T bitwise_not(T a) {
  return T(~a);
}
template <class T>
LAMINA_SCALAR T shift_left(T a, T b) {
  constexpr Wrap<T> bits = sizeof(T) * 8;
  Wrap<T> by = Wrap<T>(b);
  return by < bits ? T(Wrap<T>(a) << (by & (sizeof(Wrap<T>) * 8 - 1))) : T(0);
}
template <class T>
LAMINA_SCALAR T shift_right(T a, T b) {
  constexpr Wrap<T> bits = sizeof(T) * 8;
  Wrap<T> by = Wrap<T>(b);
  by = by < bits ? by : bits - 1;  // copies of the sign; for a u8 the last bit, which is shifted out as well
  T kept = T(a >> by);
  if constexpr (is_signed<T>)
    return kept;
  else
    return Wrap<T>(b) < bits ? kept : T(0);
}

// --- powers ---
template <class T>
LAMINA_SCALAR T rsqrt(T x) {
  return T(1) / sqrt(x);
}
template <class T>
LAMINA_SCALAR T pow(T a, T b) {
  if constexpr (is_float<T>) {
    return power(a, b);
  } else {
    if constexpr (is_signed<T>)
      if (b < 0) return a == 1 ? T(1) : a == T(-1) ? T(b & 1 ? -1 : 1) : T(0);
    Wrap<T> result = 1, base = Wrap<T>(a);
    for (Wrap<T> left = Wrap<T>(b); left; left >>= 1, base *= base)
      if (left & 1) result *= base;
    return T(result);
  }
}

#if defined(LAMINA_ISA)
}
#endif
}  // namespace scalar
}  // namespace lamina::kernels
