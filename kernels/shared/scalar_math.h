// Functions of one float or double for the scalar operations. Compiled by g++ and nvcc alike.
//
// Float functions are polynomials with a fixed sequence of roundings, so that scalar and vector code give the same bits; no multiplication
// is fused with an addition. exp, log and tanh are computed in float, within 2 ulp; most others in double (wide_math.h), within 0.52 ulp.
// Double functions, fmod, and sin, cos and tan of huge floats come from the C library.
#pragma once
#include "kernels/shared/wide_math.h"

namespace lamina::kernels {
namespace scalar {
#if defined(LAMINA_ISA)
inline namespace LAMINA_ISA {  // one copy per instruction set: the linker must not merge them
#endif

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;

LAMINA_SCALAR int bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_int(x);
#else
  return __builtin_bit_cast(int, x);
#endif
}
LAMINA_SCALAR float float_of(int bits) {
#if defined(__CUDA_ARCH__)
  return __int_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}
LAMINA_SCALAR float absolute(float x) { return float_of(bits_of(x) & 0x7fffffff); }
LAMINA_SCALAR double absolute(double x) { return LAMINA_MATH(fabs)(x); }
LAMINA_SCALAR float with_sign_of(float x, float sign) { return float_of((bits_of(x) & 0x7fffffff) | (bits_of(sign) & int(0x80000000u))); }
LAMINA_SCALAR double with_sign_of(double x, double sign) { return LAMINA_MATH(copysign)(x, sign); }

// --- the C library's ---
LAMINA_SCALAR float remainder_of(float a, float b) { return LAMINA_MATH(fmodf)(a, b); }
LAMINA_SCALAR double remainder_of(double a, double b) { return LAMINA_MATH(fmod)(a, b); }
LAMINA_SCALAR float round_down(float a) { return LAMINA_MATH(floorf)(a); }
LAMINA_SCALAR double round_down(double a) { return LAMINA_MATH(floor)(a); }
LAMINA_SCALAR float round_up(float a) { return LAMINA_MATH(ceilf)(a); }
LAMINA_SCALAR double round_up(double a) { return LAMINA_MATH(ceil)(a); }
LAMINA_SCALAR float round_to_even(float a) { return LAMINA_MATH(rintf)(a); }
LAMINA_SCALAR double round_to_even(double a) { return LAMINA_MATH(rint)(a); }
LAMINA_SCALAR float cut_fraction(float a) { return LAMINA_MATH(truncf)(a); }
LAMINA_SCALAR double cut_fraction(double a) { return LAMINA_MATH(trunc)(a); }
LAMINA_SCALAR float sqrt(float x) { return LAMINA_MATH(sqrtf)(x); }
LAMINA_SCALAR double sqrt(double x) { return LAMINA_MATH(sqrt)(x); }
LAMINA_SCALAR float power(float a, float b) { return float(wide::power(a, b)); }
LAMINA_SCALAR double power(double a, double b) { return LAMINA_MATH(pow)(a, b); }

// --- computed in double ---
#define LAMINA_WIDE(name)                                                    \
  LAMINA_SCALAR float name(float x) { return float(wide::name(double(x))); } \
  LAMINA_SCALAR double name(double x) { return LAMINA_MATH(name)(x); }
LAMINA_WIDE(acos)
LAMINA_WIDE(acosh)
LAMINA_WIDE(asin)
LAMINA_WIDE(asinh)
LAMINA_WIDE(atan)
LAMINA_WIDE(atanh)
LAMINA_WIDE(cbrt)
LAMINA_WIDE(cosh)
LAMINA_WIDE(erf)
LAMINA_WIDE(erfc)
LAMINA_WIDE(exp2)
LAMINA_WIDE(expm1)
LAMINA_WIDE(log10)
LAMINA_WIDE(log1p)
LAMINA_WIDE(log2)
LAMINA_WIDE(sinh)
#undef LAMINA_WIDE
LAMINA_SCALAR float atan2(float y, float x) { return float(wide::atan2(y, x)); }
LAMINA_SCALAR double atan2(double y, double x) { return LAMINA_MATH(atan2)(y, x); }
// near_* handles arguments within the limit; a loop over such arguments contains no calls.
LAMINA_SCALAR bool is_near(float x) { return absolute(x) <= wide::kFarthest; }
#define LAMINA_CIRCULAR(name)                                                                         \
  LAMINA_SCALAR float near_##name(float x) { return float(wide::name(double(x))); }                   \
  LAMINA_SCALAR float name(float x) { return is_near(x) ? near_##name(x) : LAMINA_MATH(name##f)(x); } \
  LAMINA_SCALAR double name(double x) { return LAMINA_MATH(name)(x); }
LAMINA_CIRCULAR(cos)
LAMINA_CIRCULAR(sin)
LAMINA_CIRCULAR(tan)
#undef LAMINA_CIRCULAR

// --- exponentials ---
inline constexpr float kLog2e = 1.44269504f;
inline constexpr float kToWhole = 12582912.0f;  // 1.5 * 2^23: adding it puts the nearest integer into the last bits
// ln 2 in two parts. The first has few bits, so its product with a small integer is exact.
inline constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

// x, or 0 if |x| is below 2^power: for an x whose square, or its square's, is then too small to matter beside 1. The result is the same,
// but products below 2^-126, subnormal numbers, take a CPU a hundred cycles each; a GPU multiplies them as fast as others.
template <int power = -30>
LAMINA_SCALAR float that_matters(float x) {
#if defined(__CUDA_ARCH__)
  return x;
#else
  int kept = (bits_of(x) & 0x7fffffff) < (127 + power) << 23 ? 0 : -1;  // of integers: a compiler would choose behind the products
  return float_of(bits_of(x) & kept);
#endif
}
template <int power = -30>
LAMINA_SCALAR double that_matters(double x) {
  return x;
}

// e^r - 1 - r for |r| <= ln(2) / 2. Estrin's scheme: shorter dependence chains than Horner's.
LAMINA_SCALAR float exp_terms(float r) {
  float square = r * r;
  float p = (1.381432055e-03f * r + 8.368850686e-03f) * square + (4.166840017e-02f * r + 1.666651964e-01f);
  return square * (p * r + 4.999999404e-01f);
}
// 2^n e^r with |r| <= ln(2) / 2: e^r by a polynomial, 2^n by two factors, so that a subnormal result is rounded once. `extra` is a small
// correction to x, such as the rounding error of a square.
template <bool has_extra = false>
LAMINA_SCALAR float exp_of(float x, [[maybe_unused]] float extra = 0) {
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float shifted = c * kLog2e + kToWhole;
  int n = int(unsigned(bits_of(shifted)) - 0x4b400000u);
  float whole = shifted - kToWhole;
  float rest = c - whole * kLn2High, second = -whole * kLn2Low;  // r = rest + second
  if constexpr (has_extra) second += extra;
  float r = rest + second, low = second - (r - rest);
  float sum = 1.0f + r;  // its rounding error is added with the small terms: within 0.6 ulp
  float p = sum + ((r - (sum - 1.0f)) + (low + exp_terms(r)));
  int half = n >> 1;
  return p * float_of(int(unsigned(half + 127) << 23)) * float_of(int(unsigned(n - half + 127) << 23));
}
LAMINA_SCALAR float exp(float x) { return exp_of(x); }
LAMINA_SCALAR double exp(double x) { return LAMINA_MATH(exp)(x); }

// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = 2 atanh(f / (2 + f)).
LAMINA_SCALAR float log(float x) {
  float up = x < 1.17549435e-38f ? x * 8388608.0f : x;  // subnormal
  unsigned bits = unsigned(bits_of(up));
  int shift = int(bits - 0x3f3504f3u) >> 23;
  float f = float_of(int(bits - (unsigned(shift) << 23))) - 1.0f;
  float e = float(shift) - (x < 1.17549435e-38f ? 23.0f : 0.0f);
  float s = f / (2.0f + f), z = s * s;
  float p = 2.359633148e-01f;
  p = p * z + 2.853660285e-01f;
  p = p * z + 4.000034630e-01f;
  p = p * z + 6.666666269e-01f;
  float half_square = 0.5f * f * f;
  float low = s * (half_square + z * p) + e * kLn2Low;
  float result = (f - (half_square - low)) + e * kLn2High;
  result = x > 3.40282347e38f ? x : result;  // infinity
  result = x == 0.0f ? -float_of(0x7f800000) : result;
  result = x < 0.0f ? float_of(0x7fc00000) : result;
  return x != x ? x : result;
}
LAMINA_SCALAR double log(double x) { return LAMINA_MATH(log)(x); }

// Near 0 a polynomial; elsewhere 1 - 2 / (e^2a + 1), which damps the exponential's error and is 1 from 9.02 on.
LAMINA_SCALAR float tanh(float x) {
  float a = absolute(x), near = that_matters(a), z = near * near;
  float p = -5.717045162e-03f;
  p = p * z + 2.065058798e-02f;
  p = p * z - 5.374349654e-02f;
  p = p * z + 1.333149076e-01f;
  p = p * z - 3.333328366e-01f;
  float small = a + a * (z * p);
  float c = near > 9.02f ? 9.02f : near;  // NaN for NaN
  float shifted = c * (2.0f * kLog2e) + kToWhole, whole = shifted - kToWhole;
  float r = ((c + c) - whole * kLn2High) - whole * kLn2Low;
  float e = (1.0f + (r + exp_terms(r))) * float_of(int((unsigned(bits_of(shifted)) + 127u) << 23));  // e^2a = e^r 2^whole
  float large = 1.0f - 2.0f / (e + 1.0f);
  return with_sign_of(a < 0.625f ? small : large, x);
}
LAMINA_SCALAR double tanh(double x) { return LAMINA_MATH(tanh)(x); }

#if defined(LAMINA_ISA)
}
#endif
}  // namespace scalar
}  // namespace lamina::kernels
