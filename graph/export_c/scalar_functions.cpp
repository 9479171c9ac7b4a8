// The elementwise ops as kernels/shared/scalar_ops.h, scalar_math.h and activations.h define them, in C. $T is the type, $S its name in
// functions' names, $U the unsigned type that integers are computed in (of floats $T), $F the suffix of the C library's functions.
#include "graph/export_c/scalar_functions.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "graph/export_c/row_functions.h"
#include "graph/export_c/writer.h"

namespace lamina::c_text {
namespace {

constexpr DType kBool = DType::boolean;
using Types = std::vector<DType>;
const Types& of(std::initializer_list<DType> dtypes) { return *new Types(dtypes); }
const Types &kF32 = of({DType::f32}), &kF64 = of({DType::f64}), &kFloats = of({DType::f32, DType::f64});
const Types &kSigned = of({DType::i8, DType::i16, DType::i32, DType::i64}), &kU8 = of({DType::u8}), &kBools = of({kBool});
const Types& kIntegers = of({DType::u8, DType::i8, DType::i16, DType::i32, DType::i64});
const Types& kBits = of({kBool, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64});
const Types& kAll = of({kBool, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f32, DType::f64});

// A function of one to three elements whose body is one expression of a, b and c.
struct Expression {
  const char* name;
  int operands;
  const Types& types;
  const char* text;
  bool to_bool = false;
};

const std::vector<Expression>& expressions() {
  static const std::vector<Expression>& list = *new std::vector<Expression>{
      {"abs", 1, kFloats, "fabs$F(a)"},
      {"abs", 1, kSigned, "a < 0 ? ($T)(0 - ($U)a) : a"},
      {"abs", 1, kU8, "a"},
      {"add", 2, kFloats, "a + b"},
      {"add", 2, kIntegers, "($T)(($U)a + ($U)b)"},
      {"sub", 2, kFloats, "a - b"},
      {"sub", 2, kIntegers, "($T)(($U)a - ($U)b)"},
      {"mul", 2, kFloats, "a * b"},
      {"mul", 2, kIntegers, "($T)(($U)a * ($U)b)"},
      {"div", 2, kFloats, "a / b"},
      {"neg", 1, kFloats, "-a"},
      {"neg", 1, kIntegers, "($T)(0 - ($U)a)"},
      {"square", 1, kFloats, "a * a"},
      {"square", 1, kIntegers, "($T)(($U)a * ($U)a)"},
      {"sign", 1, kFloats, "a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a"},
      {"sign", 1, kSigned, "($T)((a > 0) - (a < 0))"},
      {"sign", 1, kU8, "a != 0"},
      {"maximum", 2, kFloats, "a != a ? a : a > b ? a : b"},
      {"maximum", 2, kIntegers, "a > b ? a : b"},
      {"minimum", 2, kFloats, "a != a ? a : a < b ? a : b"},
      {"minimum", 2, kIntegers, "a < b ? a : b"},
      {"clip", 3, kFloats, "lm_minimum_$S(lm_maximum_$S(a, b), c)"},
      {"clip", 3, kIntegers, "lm_minimum_$S(lm_maximum_$S(a, b), c)"},
      {"reciprocal", 1, kFloats, "1 / a"},
      {"sqrt", 1, kFloats, "sqrt$F(a)"},
      {"rsqrt", 1, kFloats, "1 / sqrt$F(a)"},
      {"ceil", 1, kFloats, "ceil$F(a)"},
      {"floor", 1, kFloats, "floor$F(a)"},
      {"round", 1, kFloats, "rint$F(a)"},
      {"trunc", 1, kFloats, "trunc$F(a)"},
      {"ceil", 1, kIntegers, "a"},
      {"floor", 1, kIntegers, "a"},
      {"round", 1, kIntegers, "a"},
      {"trunc", 1, kIntegers, "a"},
      {"fmod", 2, kFloats, "fmod$F(a, b)"},
      {"fmod", 2, kSigned, "b == 0 || b == -1 ? 0 : ($T)(a % b)"},
      {"fmod", 2, kU8, "b == 0 ? 0 : ($T)(a % b)"},
      {"mod", 2, kU8, "b == 0 ? 0 : ($T)(a % b)"},
      {"floor_divide", 2, kU8, "b == 0 ? 0 : ($T)(a / b)"},
      {"equal", 2, kAll, "a == b", true},
      {"not_equal", 2, kAll, "a != b", true},
      {"greater", 2, kAll, "a > b", true},
      {"greater_equal", 2, kAll, "a >= b", true},
      {"less", 2, kAll, "a < b", true},
      {"less_equal", 2, kAll, "a <= b", true},
      {"logical_and", 2, kBools, "a & b", true},
      {"logical_or", 2, kBools, "a | b", true},
      {"logical_xor", 2, kBools, "a ^ b", true},
      {"logical_not", 1, kBools, "a ^ 1", true},
      {"isfinite", 1, kFloats, "a - a == 0", true},
      {"isnan", 1, kFloats, "a != a", true},
      {"isinf", 1, kFloats, "a == a && !(a - a == 0)", true},
      {"isfinite", 1, kIntegers, "a - a == 0", true},
      {"isnan", 1, kIntegers, "a - a != 0", true},
      {"isinf", 1, kIntegers, "a - a != 0", true},
      {"bitwise_and", 2, kBits, "($T)(a & b)"},
      {"bitwise_or", 2, kBits, "($T)(a | b)"},
      {"bitwise_xor", 2, kBits, "($T)(a ^ b)"},
      {"bitwise_not", 1, kIntegers, "($T)~a"},
      {"shift_left", 2, kIntegers, "($U)b < sizeof($T) * 8 ? ($T)(($U)a << ($U)b) : 0"},
      {"shift_right", 2, kSigned, "($T)(a >> (($U)b < sizeof($T) * 8 ? ($U)b : sizeof($T) * 8 - 1))"},
      {"shift_right", 2, kU8, "($U)b < 8 ? ($T)(a >> b) : 0"},
      {"acos", 1, kF32, "(float)acos((double)a)"},
      {"acosh", 1, kF32, "(float)acosh((double)a)"},
      {"asin", 1, kF32, "(float)asin((double)a)"},
      {"asinh", 1, kF32, "(float)asinh((double)a)"},
      {"atan", 1, kF32, "(float)atan((double)a)"},
      {"atan2", 2, kF32, "(float)atan2((double)a, (double)b)"},
      {"atanh", 1, kF32, "(float)atanh((double)a)"},
      {"cbrt", 1, kF32, "(float)cbrt((double)a)"},
      {"cos", 1, kF32, "(float)cos((double)a)"},
      {"cosh", 1, kF32, "(float)cosh((double)a)"},
      {"erf", 1, kF32, "(float)erf((double)a)"},
      {"erfc", 1, kF32, "(float)erfc((double)a)"},
      {"exp2", 1, kF32, "(float)exp2((double)a)"},
      {"expm1", 1, kF32, "(float)expm1((double)a)"},
      {"log10", 1, kF32, "(float)log10((double)a)"},
      {"log1p", 1, kF32, "(float)log1p((double)a)"},
      {"log2", 1, kF32, "(float)log2((double)a)"},
      {"pow", 2, kF32, "(float)pow((double)a, (double)b)"},
      {"sin", 1, kF32, "(float)sin((double)a)"},
      {"sinh", 1, kF32, "(float)sinh((double)a)"},
      {"tan", 1, kF32, "(float)tan((double)a)"},
      {"acos", 1, kF64, "acos(a)"},
      {"acosh", 1, kF64, "acosh(a)"},
      {"asin", 1, kF64, "asin(a)"},
      {"asinh", 1, kF64, "asinh(a)"},
      {"atan", 1, kF64, "atan(a)"},
      {"atan2", 2, kF64, "atan2(a, b)"},
      {"atanh", 1, kF64, "atanh(a)"},
      {"cbrt", 1, kF64, "cbrt(a)"},
      {"cos", 1, kF64, "cos(a)"},
      {"cosh", 1, kF64, "cosh(a)"},
      {"erf", 1, kF64, "erf(a)"},
      {"erfc", 1, kF64, "erfc(a)"},
      {"exp", 1, kF64, "exp(a)"},
      {"exp2", 1, kF64, "exp2(a)"},
      {"expm1", 1, kF64, "expm1(a)"},
      {"log", 1, kF64, "log(a)"},
      {"log10", 1, kF64, "log10(a)"},
      {"log1p", 1, kF64, "log1p(a)"},
      {"log2", 1, kF64, "log2(a)"},
      {"pow", 2, kF64, "pow(a, b)"},
      {"sin", 1, kF64, "sin(a)"},
      {"sinh", 1, kF64, "sinh(a)"},
      {"tan", 1, kF64, "tan(a)"},
      {"tanh", 1, kF64, "tanh(a)"},
      {"exp", 1, kF32, "lm_exp_sum_f32(a, 0)"},
      {"log1p_to_1", 1, kF64, "log1p(a)"},
      {"expm1_below_0", 1, kF64, "expm1(a)"},
      {"relu", 1, kFloats, "a <= 0 ? 0 : a"},
      {"relu", 1, kIntegers, "a <= 0 ? 0 : a"},
      {"relu_grad", 2, kFloats, "b > 0 ? a : 0"},
      {"relu_grad", 2, kIntegers, "b > 0 ? a : 0"},
      {"that_matters", 1, kF32, "fabsf(a) < 9.31322575e-10f ? 0 : a"},
      {"that_matters", 1, kF64, "a"},
      {"tanh_grad", 2, kFloats, "a * (1 - lm_that_matters_$S(b) * lm_that_matters_$S(b))"},
      {"sigmoid_grad", 2, kFloats, "a * (b * (1 - b))"},
      {"softplus", 1, kFloats, "(a > 0 ? a : 0) + lm_log1p_to_1_$S(lm_exp_$S(-fabs$F(a)))"},
      {"softplus_grad", 2, kFloats, "a * -lm_expm1_below_0_$S(-b)"},
      {"logaddexp", 2, kFloats, "(a > b ? a : b) + lm_log1p_to_1_$S(lm_exp_$S(a == b ? 0 : -fabs$F(a - b)))"},
      {"leaky_relu", 2, kFloats, "a > 0 ? a : b * a"},
      {"leaky_relu_grad", 3, kFloats, "b > 0 ? a : c * a"},
      {"elu", 2, kFloats, "a > 0 ? a : b * lm_expm1_below_0_$S(a > 0 ? 0 : a)"},
      {"elu_grad", 3, kFloats, "b > 0 ? a : a * (c * lm_exp_$S(b > 0 ? 0 : b))"},
  };
  return list;
}

// Functions that are more than an expression. Each stands behind those that it calls.
struct Definition {
  const char* name;
  const Types& types;
  const char* text;
};
const std::vector<Definition>& definitions() {
  static const std::vector<Definition>& list = *new std::vector<Definition>{
      {"bits", kF32, "static inline int32_t lm_bits_f32(float a) {\n  int32_t b;\n  memcpy(&b, &a, sizeof b);\n  return b;\n}\n"},
      {"from_bits", kF32, "static inline float lm_from_bits_f32(int32_t a) {\n  float b;\n  memcpy(&b, &a, sizeof b);\n  return b;\n}\n"},
      {"exp_terms", kF32, R"(static inline float lm_exp_terms_f32(float r) {
  const float square = r * r;
  const float p = (1.381432055e-03f * r + 8.368850686e-03f) * square + (4.166840017e-02f * r + 1.666651964e-01f);
  return square * (p * r + 4.999999404e-01f);
}
)"},
      {"exp_sum", kF32, R"(static inline float lm_exp_sum_f32(float x, float extra) { /* e to the power x + extra */
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  const float shifted = c * 1.44269504f + 12582912.0f;
  const int32_t n = (int32_t)((uint32_t)lm_bits_f32(shifted) - 0x4b400000u);
  const float whole = shifted - 12582912.0f;
  const float rest = c - whole * 0.693359375f, second = -whole * -2.12194440e-4f + extra;
  const float r = rest + second, low = second - (r - rest);
  const float sum = 1.0f + r;
  const float p = sum + ((r - (sum - 1.0f)) + (low + lm_exp_terms_f32(r)));
  const int32_t half = n >> 1;
  return p * lm_from_bits_f32((int32_t)((uint32_t)(half + 127) << 23)) * lm_from_bits_f32((int32_t)((uint32_t)(n - half + 127) << 23));
}
)"},
      {"log", kF32, R"(static inline float lm_log_f32(float x) {
  const float up = x < 1.17549435e-38f ? x * 8388608.0f : x;
  const uint32_t bits = (uint32_t)lm_bits_f32(up);
  const int32_t shift = (int32_t)(bits - 0x3f3504f3u) >> 23;
  const float f = lm_from_bits_f32((int32_t)(bits - ((uint32_t)shift << 23))) - 1.0f;
  const float e = (float)shift - (x < 1.17549435e-38f ? 23.0f : 0.0f);
  const float s = f / (2.0f + f), z = s * s;
  const float p = ((2.359633148e-01f * z + 2.853660285e-01f) * z + 4.000034630e-01f) * z + 6.666666269e-01f;
  const float half_square = 0.5f * f * f;
  const float low = s * (half_square + z * p) + e * -2.12194440e-4f;
  float result = (f - (half_square - low)) + e * 0.693359375f;
  result = x > 3.40282347e38f ? x : result;
  result = x == 0.0f ? -lm_from_bits_f32(0x7f800000) : result;
  result = x < 0.0f ? lm_from_bits_f32(0x7fc00000) : result;
  return x != x ? x : result;
}
)"},
      {"tanh", kF32, R"(static inline float lm_tanh_f32(float x) {
  const float a = fabsf(x), near = lm_that_matters_f32(a), z = near * near;
  const float p = (((-5.717045162e-03f * z + 2.065058798e-02f) * z - 5.374349654e-02f) * z + 1.333149076e-01f) * z - 3.333328366e-01f;
  const float small = a + a * (z * p);
  const float c = near > 9.02f ? 9.02f : near;
  const float shifted = c * (2.0f * 1.44269504f) + 12582912.0f, whole = shifted - 12582912.0f;
  const float r = ((c + c) - whole * 0.693359375f) - whole * -2.12194440e-4f;
  const float e = (1.0f + (r + lm_exp_terms_f32(r))) * lm_from_bits_f32((int32_t)(((uint32_t)lm_bits_f32(shifted) + 127u) << 23));
  const float large = 1.0f - 2.0f / (e + 1.0f);
  return copysignf(a < 0.625f ? small : large, x);
}
)"},
      {"log1p_to_1", kF32, R"(static inline float lm_log1p_to_1_f32(float e) { /* log(1 + e) for 0 <= e <= 1 */
  const float s = e / (2.0f + e), z = s * s;
  const float p = (((2.430088222e-01f * z + 2.142767012e-01f) * z + 2.861688435e-01f) * z + 3.999887705e-01f) * z + 6.666667461e-01f;
  return (s + s) + s * (z * p);
}
)"},
      {"expm1_below_0", kF32, R"(static inline float lm_expm1_below_0_f32(float x) {
  const float a = lm_that_matters_f32(x);
  const float p = (((1.197208883e-03f * a + 8.260978386e-03f) * a + 4.165419936e-02f) * a + 1.666657329e-01f) * a + 4.999999702e-01f;
  const float small = x + a * a * p, large = lm_exp_f32(a) - 1.0f;
  return x < -0.35f ? large : small;
}
)"},
      {"floor_divide", kSigned, R"(static inline $T lm_floor_divide_$S($T a, $T b) {
  if (b == 0) return 0;
  if (b == -1) return lm_neg_$S(a);
  return ($T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}
)"},
      {"floor_divide", kFloats, R"(static inline $T lm_floor_divide_$S($T a, $T b) {
  $T r, q, down;
  if (b == 0) return a / b;
  r = fmod$F(a, b);
  q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return copysign$F(0, a / b);
  down = floor$F(q);
  return q - down > ($T)0.5 ? down + 1 : down;
}
)"},
      {"mod", kSigned, R"(static inline $T lm_mod_$S($T a, $T b) {
  $T r;
  if (b == 0 || b == -1) return 0;
  r = ($T)(a % b);
  return r != 0 && (r < 0) != (b < 0) ? ($T)(r + b) : r;
}
)"},
      {"mod", kFloats, R"(static inline $T lm_mod_$S($T a, $T b) {
  const $T r = fmod$F(a, b);
  if (r == 0) return copysign$F(0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
)"},
      {"pow", kSigned, R"(static inline $T lm_pow_$S($T a, $T b) {
  $U result = 1, base = ($U)a, left = ($U)b;
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  for (; left; left >>= 1, base *= base)
    if (left & 1) result *= base;
  return ($T)result;
}
)"},
      {"pow", kU8, R"(static inline $T lm_pow_$S($T a, $T b) {
  $U result = 1, base = a, left = b;
  for (; left; left >>= 1, base *= base)
    if (left & 1) result *= base;
  return ($T)result;
}
)"},
      {"where", kAll, "static inline $T lm_where_$S(uint8_t c, $T a, $T b) {\n  return c ? a : b;\n}\n"},
      {"sigmoid", kFloats, R"(static inline $T lm_sigmoid_$S($T x) {
  const $T e = lm_exp_$S(-fabs$F(lm_that_matters_$S(x))), sum = 1 + e, lost = e - (sum - 1);
  const $T y = (x < 0 ? e : 1) / sum;
  return y - y * (lost * (x < 0 ? 1 - y : y));
}
)"},
      {"silu", kFloats, R"(static inline $T lm_silu_$S($T x) {
  const $T c = x < -($T)110 ? -($T)110 : x;
  return c * lm_sigmoid_$S(c);
}
)"},
      {"silu_grad", kFloats, R"(static inline $T lm_silu_grad_$S($T dy, $T x) {
  const $T a = x < -($T)110 ? -($T)110 : x, c = a > 110 ? 110 : a, y = lm_sigmoid_$S(c);
  return dy * (y * (1 + c * (1 - y)));
}
)"},
      {"normal_share", kF32, R"(static inline float lm_normal_share_f32(float x, float *density) { /* of the normal distribution below x */
  const float a = fabsf(x), near = a < 3.05175781e-05f ? 0.0f : a;
  const float high = lm_from_bits_f32((int32_t)((uint32_t)lm_bits_f32(near) & 0xfffff000u));
  const float e = lm_exp_sum_f32(-0.5f * high * high, -0.5f * (near - high) * (near + high));
  const float t = 1.0f / (1.0f + 0.35f * a), square = t * t;
  float p = -2.914614789e-02f * square + (1.439727247e-01f * t - 2.557163239e-01f);
  p = p * square + (1.591764688e-01f * t - 2.311135456e-02f);
  p = p * square + (1.055086106e-01f * t + 1.198327243e-01f);
  p = p * square + (1.398618817e-01f * t + 1.396214068e-01f);
  *density = e * 0.398942280f;
  return x < 0 ? e * (t * p) : 1.0f - e * (t * p);
}
)"},
      {"normal_share", kF64, R"(static inline double lm_normal_share_f64(double x, double *density) {
  *density = exp(-0.5 * x * x) * 0.3989422804014327;
  return 0.5 * erfc(-x * 0.7071067811865476);
}
)"},
      {"gelu", kFloats, R"(static inline $T lm_gelu_$S($T x) {
  const $T far = sizeof($T) == 4 ? 15 : 40, c = x < -far ? -far : x;
  $T density;
  return c * lm_normal_share_$S(c > far ? far : c, &density);
}
)"},
      {"gelu_grad", kFloats, R"(static inline $T lm_gelu_grad_$S($T dy, $T x) {
  const $T far = sizeof($T) == 4 ? 15 : 40, a = x < -far ? -far : x, c = a > far ? far : a;
  $T density;
  const $T share = lm_normal_share_$S(c, &density);
  return dy * (share + c * density);
}
)"},
      {"gelu_tanh", kFloats, R"(static inline $T lm_gelu_tanh_$S($T x) {
  const $T c = x < -30 ? -30 : x, near = lm_that_matters_$S(c);
  return c * lm_sigmoid_$S(c * (($T)1.5957691216057308 + ($T)0.07135481627260025 * (near * near)));
}
)"},
      {"gelu_tanh_grad", kFloats, R"(static inline $T lm_gelu_tanh_grad_$S($T dy, $T x) {
  const $T a = x < -30 ? -30 : x, c = a > 30 ? 30 : a, near = lm_that_matters_$S(c), square = near * near;
  const $T y = lm_sigmoid_$S(c * (($T)1.5957691216057308 + ($T)0.07135481627260025 * square));
  return dy * (y + c * (y * (1 - y) * (($T)1.5957691216057308 + ($T)0.21406444881780076 * square)));
}
)"},
  };
  return list;
}

std::string instance(std::string text, DType dtype) {
  const std::string unsigned_type = is_floating(dtype) ? c_type(dtype) : size_of(dtype) > 4 ? "uint64_t" : "uint32_t";
  const std::pair<const char*, std::string> marks[] = {
      {"$T", c_type(dtype)}, {"$S", suffix(dtype)}, {"$U", unsigned_type}, {"$F", dtype == DType::f32 ? "f" : ""}};
  for (const auto& [mark, with] : marks)
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += with.size()) text.replace(at, 2, with);
  return text;
}

bool among(const Types& types, DType dtype) { return std::find(types.begin(), types.end(), dtype) != types.end(); }

// A float as an integer: cut, NaN is 0, what is out of range the nearest end.
std::string conversion(DType to, DType from) {
  const std::string t = c_type(to), name = cat("lm_to_", suffix(to), "_", suffix(from)), f = c_type(from);
  const int bits = int(size_of(to)) * 8 - is_signed(to);
  const std::string end = number(from, std::ldexp(1.0, bits)), largest = cat("(", t, ")",
                                                                             bits == 64   ? "UINT64_MAX"
                                                                             : bits == 63 ? "INT64_MAX"
                                                                                          : cat((int64_t(1) << bits) - 1));
  const std::string smallest = !is_signed(to) ? "0" : bits == 63 ? "INT64_MIN" : cat("(-", (int64_t(1) << bits) - 1, " - 1)");
  return cat("static inline ", t, " ", name, "(", f, " a) {\n  return a != a ? 0 : a >= ", end, " ? ", largest, " : a <= (", f, ")",
             smallest, " ? ", smallest, " : (", t, ")a;\n}\n");
}

// The definition of "op_f32" and the like; empty when there is none.
std::string definition(const std::string& full) {
  const size_t cut = full.rfind('_');
  if (cut == std::string::npos) return "";
  const std::string op = full.substr(0, cut), type = full.substr(cut + 1);
  const auto found = std::find_if(std::begin(kDTypes), std::end(kDTypes), [&](DType d) { return type == suffix(d); });
  if (found == std::end(kDTypes) || is_half(*found)) return "";
  if (op.rfind("to_", 0) == 0 && is_floating(*found))
    for (DType to : kDTypes)
      if (is_integer(to) && op.substr(3) == suffix(to)) return conversion(to, *found);
  for (const Expression& e : expressions())
    if (op == e.name && among(e.types, *found)) {
      std::string parameters;
      for (int i = 0; i < e.operands; ++i) parameters += cat(i ? ", " : "", "$T ", char('a' + i));
      return instance(cat("static inline ", e.to_bool ? "uint8_t" : "$T", " lm_", full, "(", parameters, ") {\n  return ",
                          e.to_bool ? "(uint8_t)(" : "", e.text, e.to_bool ? ")" : "", ";\n}\n"),
                      *found);
    }
  for (const Definition& d : definitions())
    if (op == d.name && among(d.types, *found)) return instance(d.text, *found);
  return instance(row_function(op, *found), *found);
}

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

void collect(const std::string& text, std::set<std::string>& done, std::string& out) {
  for (size_t at = 0; (at = text.find("lm_", at)) != std::string::npos;) {
    size_t end = at;
    while (end < text.size() && in_name(text[end])) ++end;
    const bool begins = at == 0 || !in_name(text[at - 1]);
    const std::string name = text.substr(at + 3, end - at - 3);
    at = end;
    if (!begins || !done.insert(name).second) continue;
    const std::string own = definition(name);
    if (own.empty()) internal_error(cat("export_c: there is no C function ", name));
    for (size_t line = 0; (line = own.find("static ", line)) != std::string::npos; ++line) {  // it may define helpers too
      const size_t begin = own.find("lm_", line) + 3;
      done.insert(own.substr(begin, own.find_first_of("( ", begin) - begin));
    }
    collect(own, done, out);
    out += own + "\n";
  }
}

}  // namespace

std::string needed_functions(const std::string& text) {
  std::set<std::string> done;
  std::string out;
  collect(text, done, out);
  return out;
}

bool has_function(const std::string& op, DType dtype) { return !is_half(dtype) && !definition(cat(op, "_", suffix(dtype))).empty(); }

}  // namespace lamina::c_text
