// Every float16 and bfloat16 number through every unary operation, against double precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "runtime/core/config.h"
#include "runtime/core/half.h"
#include "tests/ops/elementwise_rows.h"
#include "tests/ops/op_case.h"

namespace lamina::kernels {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// In ulp: the error that computing in float adds to the rounding.
double beyond_half(ScalarOp op) { return op == ScalarOp::gelu_tanh ? 0.05 : 0.01; }
bool is_unary(ScalarOp op) {
  return operands(op) == 1 && op != ScalarOp::cast && (domain(op) == Domain::floating || domain(op) == Domain::numeric);
}

// The distance from the true value in ulp of the half type with `digits` bits and this smallest exponent.
template <class T>
double ulps(T got, double want) {
  constexpr int digits = std::is_same_v<T, f16> ? 11 : 8, least = std::is_same_v<T, f16> ? -24 : -133;
  const double g = float(got), largest = std::is_same_v<T, f16> ? 65504 : 0x1.fep127;
  if (std::isnan(want)) return std::isnan(g) ? 0 : kInf;
  int exponent = 0;
  std::frexp(want, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));
  if (std::isinf(g) || std::isinf(want) || std::abs(want) > largest) {
    // Half an ulp or more beyond the largest number is infinity.
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
  for (int i = 0; i < kScalarOps; ++i) {
    const ScalarOp op = ScalarOp(i);
    if (!is_unary(op)) continue;
    const auto f = tests::elementwise_row(name(op)).f;
    const bool to_bool = gives_bool(op);
    const ElementwiseCode code{
        .inputs = {dtype}, .constants = {}, .instructions = {{op, dtype, to_bool ? DType::boolean : dtype, 0}}, .outputs = {1}};
    std::vector<double> want;
    for (T v : x) want.push_back(f(double(float(v)), 0, 0));
    std::vector<T> first;
    for (const std::string& isa : tests::available_isas()) {
      SCOPED_TRACE(cat(name(op), " of ", dtype, ", ", isa));
      config::set_cpu_isa(isa);
      std::vector<T> y(x.size());
      const void* in = x.data();
      const cpu::MatrixSteps step{true, true};
      void* out = y.data();
      cpu::elementwise_matrix(code, &in, &step, &out, int64_t(x.size()), 0, int64_t(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        if (to_bool) {
          ASSERT_EQ(static_cast<const uint8_t*>(out)[i], uint8_t(want[i])) << "of " << float(x[i]);
          continue;
        }
        if (op == ScalarOp::rsqrt && float(x[i]) == 0) {
          ASSERT_TRUE(std::isinf(float(y[i])));
          continue;
        }
        const double u = ulps(y[i], want[i]);
        ASSERT_LE(u, 0.5 + beyond_half(op)) << "of " << float(x[i]) << ": " << float(y[i]) << " instead of " << want[i];
        longest = std::max(longest, u);
      }
      if (first.empty()) first = y;
      // Which NaN results from two depends on the compiler's order of operands.
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

}  // namespace
}  // namespace lamina::kernels
