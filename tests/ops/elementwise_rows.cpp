#include "tests/ops/elementwise_rows.h"

#include <cmath>
#include <limits>

#include "runtime/core/error.h"

namespace lamina::tests {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const std::vector<DType> kSignedIntegers{DType::i8, DType::i16, DType::i32, DType::i64};
const std::vector<DType> kSigned{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double silu_slope(double x) { return logistic(x) * (1 + x * logistic(-x)); }
double gelu_slope(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-0.5 * x * x) * 0.3989422804014327; }
double gelu_tanh(double x) { return x < -40 ? -0.0 : x > 40 ? x : x * logistic(1.5957691216057308 * (x + 0.044715 * x * x * x)); }
double gelu_tanh_slope(double x) {
  const double k = 1.5957691216057308, s = logistic(k * (x + 0.044715 * x * x * x));
  return s + x * s * (1 - s) * k * (1 + 3 * 0.044715 * x * x);
}

// Half an ulp is one rounding. Polynomials have a limit of 2 ulp, gradients one per rounding in their formula. Rows of one operand hold for
// every number, including infinities and NaN.
#define F [](double a, [[maybe_unused]] double b, [[maybe_unused]] double c) -> double
// clang-format off
const ElementwiseRow kRows[] = {
    {"abs", F { return std::abs(a); }},
    {"acos", F { return std::acos(a); }, -0.95, 0.95},
    {"acosh", F { return std::acosh(a); }, 1.1, 9},
    {"add", F { return a + b; }, 0, 50, 0, 50},
    {"asin", F { return std::asin(a); }, -0.95, 0.95},
    {"asinh", F { return std::asinh(a); }, -9, 9},
    {"atan", F { return std::atan(a); }, -9, 9},
    {"atan2", F { return std::atan2(a, b); }},
    {"atanh", F { return std::atanh(a); }, -0.95, 0.95},
    {"bitwise_and", F { return double(int64_t(a) & int64_t(b)); }, -99, 99, -99, 99},
    {"bitwise_not", F { return double(~int64_t(a)); }, -99, 99, -2, 2, 0.51, 0, &kSignedIntegers},
    {"bitwise_or", F { return double(int64_t(a) | int64_t(b)); }, -99, 99, -99, 99},
    {"bitwise_xor", F { return double(int64_t(a) ^ int64_t(b)); }, -99, 99, -99, 99},
    {"cbrt", F { return std::cbrt(a); }, 0.2, 9},
    {"ceil", F { return std::ceil(a); }, -60, 60},
    {"clip", F { return std::min(std::max(a, b), c); }, -20, 20, -15, 15},
    {"cos", F { return std::cos(a); }, -10, 10, 0, 0, 1},
    {"cosh", F { return std::cosh(a); }, -4, 4},
    {"div", F { return a / b; }, -2, 2, 0.5, 3},
    {"elu", F { return a > 0 ? a : b * std::expm1(a); }, -3, 3, -2, 2, 3},
    {"elu_grad", F { return b > 0 ? a : a * c * std::exp(b); }, -2, 2, 0.1, 2, 3},
    {"equal", F { return a == b; }, 0, 2, 0, 2},
    {"erf", F { return std::erf(a); }, -3, 3},
    {"erfc", F { return std::erfc(a); }, -3, 5},
    {"exp", F { return std::exp(a); }, -8, 8, 0, 0, 1.5},
    {"exp2", F { return std::exp2(a); }, -9, 9},
    {"expm1", F { return std::expm1(a); }, -4, 4},
    {"floor", F { return std::floor(a); }, -60, 60},
    {"floor_divide", F { return std::floor(a / b); }, -60, 60, 1, 7},
    {"fmod", F { return std::fmod(a, b); }, -60, 60, 1, 7},
    {"gelu", F { return a < -40 ? -0.0 : 0.5 * a * std::erfc(-a * M_SQRT1_2); }, -6, 4, 0, 0, 8},
    {"gelu_grad", F { return a * gelu_slope(b); }, -2, 2, -4, 4, 8, 0.5},
    {"gelu_tanh", F { return gelu_tanh(a); }, -3, 3, 0, 0, 16},
    {"gelu_tanh_grad", F { return a * gelu_tanh_slope(b); }, -2, 2, -3, 3, 8, 0.5},
    {"greater", F { return a > b; }, 0, 2, 0, 2},
    {"greater_equal", F { return a >= b; }, 0, 2, 0, 2},
    {"isfinite", F { return std::isfinite(a); }},
    {"isinf", F { return std::isinf(a); }},
    {"isnan", F { return std::isnan(a); }},
    {"leaky_relu", F { return a > 0 ? a : b * a; }},
    {"leaky_relu_grad", F { return b > 0 ? a : c * a; }},
    {"less", F { return a < b; }, 0, 2, 0, 2},
    {"less_equal", F { return a <= b; }, 0, 2, 0, 2},
    {"log", F { return std::log(a); }, 0.1, 8, 0, 0, 1.5},
    {"log10", F { return std::log10(a); }, 0.1, 8},
    {"log1p", F { return std::log1p(a); }, -0.9, 8},
    {"log2", F { return std::log2(a); }, 0.1, 8},
    {"logaddexp", F { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); }, -4, 4, -4, 4, 3, 0.5},
    {"logical_and", F { return a != 0 && b != 0; }},
    {"logical_not", F { return a == 0; }},
    {"logical_or", F { return a != 0 || b != 0; }},
    {"logical_xor", F { return (a != 0) != (b != 0); }},
    {"maximum", F { return std::max(a, b); }, -20, 20, -20, 20},
    {"minimum", F { return std::min(a, b); }, -20, 20, -20, 20},
    {"mod", F { return std::fmod(std::fmod(a, b) + b, b); }, -60, 60, 1, 7, 4},
    {"mul", F { return a * b; }, -8, 8, -8, 8},
    {"neg", F { return -a; }, -2, 2, -2, 2, 0.51, 0, &kSigned},
    {"not_equal", F { return a != b; }, 0, 2, 0, 2},
    {"pow", F { return std::pow(a, b); }, 0.3, 3, 0.3, 3, 1},
    {"reciprocal", F { return 1 / a; }, 0.3, 8},
    {"relu", F { return a <= 0 ? 0 : a; }},
    {"relu_grad", F { return b > 0 ? a : 0; }},
    {"round", F { return std::nearbyint(a); }, -60, 60},
    {"rsqrt", F { return a == 0 ? kInf : 1 / std::sqrt(a); }, 0.1, 5, 0, 0, 1.5},
    {"shift_left", F { return a * std::exp2(b); }, -3, 3, 0, 4},
    {"shift_right", F { return std::floor(a / std::exp2(b)); }, -99, 99, 0, 9},
    {"sigmoid", F { return logistic(a); }, -8, 8, 0, 0, 2},
    {"sigmoid_grad", F { return a * b * (1 - b); }, -2, 2, 0.1, 0.9, 4},
    {"sign", F { return a > 0 ? 1 : a < 0 ? -1 : a; }},
    {"silu", F { return a < -800 ? -0.0 : a * logistic(a); }, -8, 8, 0, 0, 4},
    {"silu_grad", F { return a * silu_slope(b); }, -2, 2, -6, 6, 8, 0.5},
    {"sin", F { return std::sin(a); }, -10, 10, 0, 0, 1},
    {"sinh", F { return std::sinh(a); }, -4, 4},
    {"softplus", F { return std::max(a, 0.0) + std::log1p(std::exp(-std::abs(a))); }, -8, 8, 0, 0, 3},
    {"softplus_grad", F { return -a * std::expm1(-b); }, -2, 2, 0.01, 3, 3},
    {"sqrt", F { return std::sqrt(a); }, 0.1, 5},
    {"square", F { return a * a; }, -8, 8},
    {"sub", F { return a - b; }, 50, 100, 0, 50},
    {"tan", F { return std::tan(a); }, -1.4, 1.4, 0, 0, 1},
    {"tanh", F { return std::tanh(a); }, -4, 4, 0, 0, 2},
    {"tanh_grad", F { return a * (1 - b * b); }, -2, 2, -0.8, 0.8, 4},
    {"trunc", F { return std::trunc(a); }, -60, 60},
    {"where", F { return a != 0 ? b : c; }, 0, 1, -2, 2},
};
// clang-format on
#undef F

}  // namespace

std::span<const ElementwiseRow> elementwise_rows() { return kRows; }

const ElementwiseRow& elementwise_row(std::string_view op) {
  for (const ElementwiseRow& row : kRows)
    if (row.op == op) return row;
  internal_error(cat(op, " has no row in tests/ops/elementwise_rows.cpp"));
}

}  // namespace lamina::tests
