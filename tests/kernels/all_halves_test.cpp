// Every float16 and bfloat16 number through every unary operation, against double precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "kernels/elementwise.h"
#include "runtime/core/config.h"
#include "runtime/core/half.h"
#include "tests/ops/op_case.h"

namespace lamina::kernels {
namespace {

struct Row {
  ScalarOp op;
  double (*f)(double);
  double beyond_half = 0.01;  // of a unit in the last place: what the computation in float adds to the rounding
};

constexpr double kInf = std::numeric_limits<double>::infinity();
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// clang-format off
#define F [](double x) -> double
const Row kRows[] = {
    {ScalarOp::abs, F { return std::abs(x); }},
    {ScalarOp::acos, F { return std::acos(x); }},
    {ScalarOp::acosh, F { return std::acosh(x); }},
    {ScalarOp::asin, F { return std::asin(x); }},
    {ScalarOp::asinh, F { return std::asinh(x); }},
    {ScalarOp::atan, F { return std::atan(x); }},
    {ScalarOp::atanh, F { return std::atanh(x); }},
    {ScalarOp::cbrt, F { return std::cbrt(x); }},
    {ScalarOp::ceil, F { return std::ceil(x); }},
    {ScalarOp::cos, F { return std::cos(x); }},
    {ScalarOp::cosh, F { return std::cosh(x); }},
    {ScalarOp::erf, F { return std::erf(x); }},
    {ScalarOp::erfc, F { return std::erfc(x); }},
    {ScalarOp::exp, F { return std::exp(x); }},
    {ScalarOp::exp2, F { return std::exp2(x); }},
    {ScalarOp::expm1, F { return std::expm1(x); }},
    {ScalarOp::floor, F { return std::floor(x); }},
    {ScalarOp::gelu, F { return x < -40 ? -0.0 : 0.5 * x * std::erfc(-x * M_SQRT1_2); }},
    {ScalarOp::gelu_tanh, F { return x < -40 ? -0.0 : x > 40 ? x : x * logistic(1.5957691216057308 * (x + 0.044715 * x * x * x)); }, 0.05},
    {ScalarOp::isfinite, F { return std::isfinite(x); }},
    {ScalarOp::isinf, F { return std::isinf(x); }},
    {ScalarOp::isnan, F { return std::isnan(x); }},
    {ScalarOp::log, F { return std::log(x); }},
    {ScalarOp::log10, F { return std::log10(x); }},
    {ScalarOp::log1p, F { return std::log1p(x); }},
    {ScalarOp::log2, F { return std::log2(x); }},
    {ScalarOp::neg, F { return -x; }},
    {ScalarOp::reciprocal, F { return 1 / x; }},
    {ScalarOp::relu, F { return x <= 0 ? 0 : x; }},
    {ScalarOp::round, F { return std::nearbyint(x); }},
    {ScalarOp::rsqrt, F { return x == 0 ? kInf : 1 / std::sqrt(x); }},  // of -0 too: the rule for x = -0 is checked below
    {ScalarOp::sigmoid, logistic},
    {ScalarOp::sign, F { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }},
    {ScalarOp::silu, F { return x < -800 ? -0.0 : x * logistic(x); }},
    {ScalarOp::sin, F { return std::sin(x); }},
    {ScalarOp::sinh, F { return std::sinh(x); }},
    {ScalarOp::softplus, F { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
    {ScalarOp::sqrt, F { return std::sqrt(x); }},
    {ScalarOp::square, F { return x * x; }},
    {ScalarOp::tan, F { return std::tan(x); }},
    {ScalarOp::tanh, F { return std::tanh(x); }},
    {ScalarOp::trunc, F { return std::trunc(x); }},
};
#undef F
// clang-format on

// The distance from the true value in units of the last place of the half type that ends at `digits` bits, with the least exponent.
template <class T>
double ulps(T got, double want) {
  constexpr int digits = std::is_same_v<T, f16> ? 11 : 8, least = std::is_same_v<T, f16> ? -24 : -133;
  const double g = float(got), largest = std::is_same_v<T, f16> ? 65504 : 0x1.fep127;
  if (std::isnan(want)) return std::isnan(g) ? 0 : kInf;
  int exponent = 0;
  std::frexp(want, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));
  if (std::isinf(g) || std::isinf(want) || std::abs(want) > largest) {
    // Beyond the largest number by half a unit and more is infinity.
    const double last = std::ldexp(1.0, std::is_same_v<T, f16> ? 5 : 120),
                 rounded = std::abs(want) >= largest + 0.49 * last ? kInf : largest;
    const bool near_end = std::abs(std::abs(want) - (largest + 0.5 * last)) < 0.02 * last;
    return (std::abs(g) == rounded || (near_end && std::abs(g) >= largest)) && std::signbit(g) == std::signbit(want) ? 0 : kInf;
  }
  return std::abs(g - want) / unit;
}

template <class T>
void check_all(DType dtype) {
  std::vector<T> x(65536);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<T>(uint16_t(i));
  const std::string before = config::cpu_isa();
  double longest = 0;
  for (const Row& row : kRows) {
    const bool to_bool = gives_bool(row.op);
    const ElementwiseCode code{
        .inputs = {dtype}, .constants = {}, .instructions = {{row.op, dtype, to_bool ? DType::boolean : dtype, 0}}, .outputs = {1}};
    std::vector<double> want;
    for (T v : x) want.push_back(row.f(double(float(v))));
    std::vector<T> first;
    for (const std::string& isa : tests::available_isas()) {
      SCOPED_TRACE(cat(name(row.op), " of ", dtype, ", ", isa));
      config::set_cpu_isa(isa);
      std::vector<T> y(x.size());
      const void* in = x.data();
      const uint8_t step = 1;
      void* out = y.data();
      cpu::elementwise_run(code, &in, &step, &out, int64_t(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        if (to_bool) {
          ASSERT_EQ(static_cast<const uint8_t*>(out)[i], uint8_t(want[i])) << "of " << float(x[i]);
          continue;
        }
        if (row.op == ScalarOp::rsqrt && float(x[i]) == 0) {
          ASSERT_TRUE(std::isinf(float(y[i])));
          continue;
        }
        const double u = ulps(y[i], want[i]);
        ASSERT_LE(u, 0.5 + row.beyond_half) << "of " << float(x[i]) << ": " << float(y[i]) << " instead of " << want[i];
        longest = std::max(longest, u);
      }
      if (first.empty()) first = y;
      // Which NaN comes of two is up to the order in which the compiler adds them.
      for (size_t i = 0; i < x.size() && !to_bool; ++i)
        ASSERT_TRUE(std::memcmp(&first[i], &y[i], 2) == 0 || (std::isnan(float(first[i])) && std::isnan(float(y[i]))))
            << "of " << float(x[i]) << ": other bits than on the first instruction set";
    }
  }
  config::set_cpu_isa(before);
  std::cout << dtype << ": at most " << longest << " ulp\n";
}

TEST(AllHalves, EveryFloat16GoesThroughEveryUnaryOperation) { check_all<f16>(DType::f16); }
TEST(AllHalves, EveryBfloat16GoesThroughEveryUnaryOperation) { check_all<bf16>(DType::bf16); }

TEST(AllHalves, NoUnaryOperationIsLeftOut) {
  std::map<std::string, int> seen;
  for (const Row& row : kRows) ++seen[name(row.op)];
  for (int i = 0; i < kScalarOps; ++i) {
    const ScalarOp op = ScalarOp(i);
    const bool wanted = operands(op) == 1 && op != ScalarOp::cast && domain(op) != Domain::boolean && domain(op) != Domain::integer;
    EXPECT_EQ(seen[name(op)], int(wanted)) << name(op);
  }
}

}  // namespace
}  // namespace lamina::kernels
