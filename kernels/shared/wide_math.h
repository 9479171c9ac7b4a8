// Float functions computed in double: after the final rounding to float, results are within 0.52 ulp. Only polynomials and selects, so that
// loops over them vectorise. Compiled by g++ and nvcc alike.
//
// The polynomials are minimax approximations with a relative error of at most 2^-35. Arguments and results are floats: nothing here is
// accurate enough, or defined, for all doubles.
#pragma once
#include "kernels/shared/scalar_op.h"

// The C library's function; on the host as a builtin, which needs no header.
#if defined(__CUDACC__)
#define LAMINA_MATH(function) ::function
#else
#define LAMINA_MATH(function) __builtin_##function
#endif

namespace lamina::kernels {
namespace scalar {
#if defined(LAMINA_ISA)
inline namespace LAMINA_ISA {  // one copy per instruction set: the linker must not merge them
#endif
namespace wide {

using Bits = unsigned long long;

LAMINA_SCALAR Bits bits(double x) {
#if defined(__CUDA_ARCH__)
  return Bits(__double_as_longlong(x));
#else
  return __builtin_bit_cast(Bits, x);
#endif
}
LAMINA_SCALAR double value(Bits b) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double((long long)b);
#else
  return __builtin_bit_cast(double, b);
#endif
}
inline constexpr Bits kSign = 1ull << 63;
inline constexpr double kLn2 = 0.6931471805599453, kHalfPi = 1.5707963267948966, kPi = 3.141592653589793;
inline constexpr double kToWhole = 6755399441055744.0;  // 1.5 * 2^52: adding it puts the nearest integer into the last bits

LAMINA_SCALAR double size(double x) { return value(bits(x) & ~kSign); }
LAMINA_SCALAR double signed_as(double x, double sign) { return value((bits(x) & ~kSign) | (bits(sign) & kSign)); }
LAMINA_SCALAR double infinity() { return value(0x7ffull << 52); }
LAMINA_SCALAR double not_a_number() { return value(0xfffull << 51); }

// c[0] x^(n-1) + ... + c[n-1]
template <int n>
LAMINA_SCALAR double polynomial(const double (&c)[n], double x) {
  double p = c[0];
#pragma GCC unroll 16
  for (int i = 1; i < n; ++i) p = p * x + c[i];
  return p;
}

// --- exponentials ---
// 2^n e^r, where shifted = n + kToWhole and |r| <= ln(2) / 2.
LAMINA_SCALAR double scaled_exp(double shifted, double r) {
  constexpr double c[] = {2.470636511195048e-05, 0.00019910293420321714, 0.0013889209757031095, 0.008333279727514476,
                          0.0416666642651699,    0.166666667916367,      0.5000000000462331};
  return value(bits(1 + (r + r * r * polynomial(c, r))) + (bits(shifted) << 52));
}
// Beyond 200 a float result is 0 or infinite.
LAMINA_SCALAR double inside(double x, double limit) {
  double c = x < -limit ? -limit : x;
  return c > limit ? limit : c;
}
LAMINA_SCALAR double exp(double x) {
  double c = inside(x, 200), shifted = c * 1.4426950408889634 + kToWhole;
  return scaled_exp(shifted, c - (shifted - kToWhole) * kLn2);
}
LAMINA_SCALAR double exp2(double x) {
  double c = inside(x, 300), shifted = c + kToWhole;
  return scaled_exp(shifted, (c - (shifted - kToWhole)) * kLn2);
}
LAMINA_SCALAR double expm1(double x) {
  double small = x * (1 + x * (0.5 + x * 0.16666666666666666));  // -0 of -0
  return size(x) < 0.000244140625 ? small : exp(x) - 1;
}
LAMINA_SCALAR double cosh(double x) { return 0.5 * (exp(x) + exp(-x)); }
LAMINA_SCALAR double sinh(double x) {
  double small = x + x * x * x * 0.16666666666666666;
  return size(x) < 0.0009765625 ? small : 0.5 * (exp(x) - exp(-x));
}

// --- logarithms ---
// x = 2^e m with m in [sqrt(1/2), sqrt(2)); log(m) = 2 atanh((m - 1) / (m + 1)).
LAMINA_SCALAR double log(double x) {
  constexpr double c[] = {0.2358998304686509, 0.2853691950341772, 0.4000034090750944, 0.6666666562219964};
  Bits biased = (bits(x) - 0x3fe6a09e667f3bcdull + (1023ull << 52)) >> 52;  // e + 1023
  double e = value(0x4330000000000000ull | biased) - 4503599627371519.0;    // less 2^52 + 1023
  double f = value(bits(x) - ((biased - 1023) << 52)) - 1;
  double s = f / (2 + f), z = s * s;
  double result = e * kLn2 + (2 * s + s * (z * polynomial(c, z)));
  result = x == 0 ? -infinity() : result;
  result = x < 0 ? not_a_number() : result;
  return x != x || x > 1e300 ? x : result;
}
LAMINA_SCALAR double log2(double x) { return log(x) * 1.4426950408889634; }
LAMINA_SCALAR double log10(double x) { return log(x) * 0.4342944819032518; }
LAMINA_SCALAR double log1p(double x) {
  double small = x - x * x * (0.5 - x * 0.3333333333333333);
  return size(x) < 0.000244140625 ? small : log(1 + x);
}
LAMINA_SCALAR double acosh(double x) {
  double y = log(x + LAMINA_MATH(sqrt)(x * x - 1));
  return x < 1 ? not_a_number() : y;
}
LAMINA_SCALAR double asinh(double x) {
  double a = size(x), z = x * x;
  double small = a - a * z * (0.16666666666666666 - z * 0.075);
  return signed_as(a < 0.00390625 ? small : log(a + LAMINA_MATH(sqrt)(z + 1)), x);
}
LAMINA_SCALAR double atanh(double x) {
  double z = x * x, small = x + x * z * (0.3333333333333333 + z * 0.2);
  return size(x) < 0.00390625 ? small : 0.5 * log((1 + x) / (1 - x));
}
LAMINA_SCALAR double cbrt(double x) { return signed_as(exp(log(size(x)) * 0.3333333333333333), x); }

// As in the C library: pow(x, 0) = pow(1, y) = 1, NaN for a negative base with a non-integer power.
LAMINA_SCALAR double power(double a, double b) {
  double base = size(a), y = exp(b * log(base));
  y = base == 1 ? 1 : y;
  // Multiples of 2^24 are even. && and || are avoided, because branches prevent vectorisation.
  double half = 0.5 * b;
  bool huge = size(b) >= 16777216, whole = huge | ((b + kToWhole) - kToWhole == b);
  bool odd = whole & !huge & ((half + kToWhole) - kToWhole != half);
  Bits flip = odd ? bits(a) & kSign : 0;
  y = value(bits(y) ^ flip);
  y = (a < 0) & (base < infinity()) & !whole ? not_a_number() : y;
  y = (a != a) | (b != b) ? a + b : y;
  return (b == 0) | (a == 1) ? 1 : y;
}

// --- trigonometric functions, up to kFarthest ---
inline constexpr float kFarthest = 268435456.0f;

// x = quadrant pi / 2 + r with |r| <= pi / 4; pi / 2 in three parts, two of which have 22 bits, so that their products are exact.
LAMINA_SCALAR double quadrant_rest(double x, Bits& quadrant) {
  double shifted = x * 0.6366197723675814 + kToWhole, n = shifted - kToWhole;
  quadrant = bits(shifted);
  return ((x - n * 1.570796012878418) - n * 3.139164164167596e-07) - n * 6.223372171896613e-14;
}
LAMINA_SCALAR double sin_near_0(double r) {
  constexpr double c[] = {2.718237718028558e-06, -0.00019839327193108615, 0.008333329362508768, -0.1666666664142891};
  double z = r * r;
  return r * (1 + z * polynomial(c, z));
}
LAMINA_SCALAR double cos_near_0(double r) {
  constexpr double c[] = {-2.7209565630095205e-07, 2.4799511983605394e-05, -0.0013888883723457283, 0.04166666662248653};
  double z = r * r;
  return 1 - z * (0.5 - z * polynomial(c, z));
}
LAMINA_SCALAR double sin_of_quadrant(double r, Bits quadrant) {
  double y = quadrant & 1 ? cos_near_0(r) : sin_near_0(r);
  return value(bits(y) ^ ((quadrant & 2) << 62));
}
LAMINA_SCALAR double sin(double x) {
  Bits quadrant = 0;
  double r = quadrant_rest(x, quadrant);
  return sin_of_quadrant(r, quadrant);
}
LAMINA_SCALAR double cos(double x) {
  Bits quadrant = 0;
  double r = quadrant_rest(x, quadrant);
  return sin_of_quadrant(r, quadrant + 1);
}
LAMINA_SCALAR double tan(double x) {
  Bits quadrant = 0;
  double r = quadrant_rest(x, quadrant), s = sin_near_0(r), c = cos_near_0(r);
  double over = quadrant & 1 ? -c : s, under = quadrant & 1 ? s : c;
  return over / under;
}

// --- inverse trigonometric functions ---
LAMINA_SCALAR double atan_of_at_most_1(double t) {
  constexpr double c[] = {-0.03794442629802221, 0.06992471034578443, -0.08997144918223228, 0.11104040244332011,
                          -0.14285425812304095, 0.199999943868764,   -0.3333333329628163};
  bool big = t > 0.41421356237309503;  // tan(pi / 8)
  double u = big ? (t - 1) / (t + 1) : t, z = u * u;
  double p = u * (1 + z * polynomial(c, z));
  return big ? p + 0.5 * kHalfPi : p;
}
LAMINA_SCALAR double atan(double x) {
  double a = size(x), p = atan_of_at_most_1(a > 1 ? 1 / a : a);
  return signed_as(a > 1 ? kHalfPi - p : p, x);
}
LAMINA_SCALAR double atan2(double y, double x) {
  double up = size(y), along = size(x), high = up > along ? up : along, low = up > along ? along : up;
  double t = high == 0 ? 0 : low == high ? 1 : low / high;
  double p = atan_of_at_most_1(t);
  p = up > along ? kHalfPi - p : p;
  p = bits(x) & kSign ? kPi - p : p;
  return x != x || y != y ? x + y : signed_as(p, y);
}
// asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)) for a > 1/2. Returns the smaller asin.
LAMINA_SCALAR double asin_of_at_most_half(double a, bool big) {
  constexpr double c[] = {0.03294154980944974,  0.0019486341468556833, 0.02065897696935915, 0.021863018670931184,
                          0.030426841057681578, 0.044640687784491394,  0.0750000504192462,  0.1666666662672564};
  double half = 0.5 * (1 - a), z = big ? half : a * a, s = big ? LAMINA_MATH(sqrt)(half) : a;
  return s * (1 + z * polynomial(c, z));
}
LAMINA_SCALAR double asin(double x) {
  double a = size(x);
  bool big = a > 0.5;
  double p = asin_of_at_most_half(a, big);
  return signed_as(big ? kHalfPi - 2 * p : p, x);
}
LAMINA_SCALAR double acos(double x) {
  double a = size(x);
  bool big = a > 0.5;
  double p = asin_of_at_most_half(a, big);
  return big ? (x < 0 ? kPi - 2 * p : 2 * p) : kHalfPi - (x < 0 ? -p : p);
}

// --- the error function ---
// 1 - erf(a) = e^(-a^2) t q(t) with t = 2 / (2 + a), for a >= 1.
LAMINA_SCALAR double erfc_of_1_up(double a) {
  constexpr double c[] = {0.05114171855213786, -0.2815851988740944,  0.6054243981554139,  -0.6001218148531575,
                          0.2469030707718028,  -0.11697872259030886, 0.11220625430294953, 0.17145460697257678,
                          0.24736753498357159, 0.28206050855924886,  0.2820957630419075};
  double t = 2 / (2 + a);
  return exp(-a * a) * (t * polynomial(c, t));
}
LAMINA_SCALAR double erf_to_1(double x) {
  constexpr double c[] = {-9.64151443115681e-06, 0.00011256947400690957, -0.0008482828787712887, 0.0052209454298626804,
                          -0.026865400041502795, 0.1128378197409929,     -0.37612638434646056,   1.1283791670580074};
  return x * polynomial(c, x * x);
}
LAMINA_SCALAR double erf(double x) {
  double a = size(x), tail = 1 - erfc_of_1_up(a);
  return a > 1 ? signed_as(tail, x) : erf_to_1(x);
}
LAMINA_SCALAR double erfc(double x) {
  double a = size(x), tail = erfc_of_1_up(a);
  return a > 1 ? (x < 0 ? 2 - tail : tail) : 1 - erf_to_1(x);
}

}  // namespace wide
#if defined(LAMINA_ISA)
}
#endif
}  // namespace scalar
}  // namespace lamina::kernels
