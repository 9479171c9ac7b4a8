// The polynomials of kernels/shared/scalar_ops.h against double precision, over all exponents.
#include "kernels/shared/scalar_ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace lamina::kernels {
namespace {

// The distance from the true value in units of the last place of the float nearest to it.
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  const float nearest = float(want);
  if (std::isinf(nearest) || std::isinf(got))
    return got == nearest ? 0 : std::abs(want) > 3.4028234e38 && std::abs(got) > 3.4028232e38f ? 1 : 1e9;
  int exponent = 0;
  std::frexp(double(nearest), &exponent);
  return std::abs(double(got) - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Worst {
  double ulps = 0;
  float at = 0;
};
template <class F, class D>
Worst sweep(F f, D reference) {
  Worst worst;
  auto look = [&](float x) {
    if (double u = ulps(f(x), reference(double(x))); u > worst.ulps) worst = {u, x};
  };
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 4099)
    look(std::bit_cast<float>(uint32_t(bits)));                      // every exponent, some 2,000 numbers each
  for (int i = -400000; i <= 400000; ++i) look(float(i) * 0.0003f);  // and densely where the functions bend
  for (float x : {0.0f, 1.0f, 0.625f, 0.6249999f, 88.722839f, 88.72284f, -87.33655f, -103.97208f, -103.97209f, 1.17549435e-38f, 1e-45f,
                  3.4028235e38f})
    look(x), look(-x);
  return worst;
}

TEST(ScalarOps, ExpIsWithinTwoUlps) {
  const Worst w = sweep([](float x) { return scalar::exp(x); }, [](double x) { return std::exp(x); });
  EXPECT_LE(w.ulps, 2) << "at " << w.at;
  std::cout << "exp: " << w.ulps << " ulp at " << w.at << "\n";
}
TEST(ScalarOps, LogIsWithinTwoUlps) {
  const Worst w = sweep([](float x) { return scalar::log(x); }, [](double x) { return std::log(x); });
  EXPECT_LE(w.ulps, 2) << "at " << w.at;
  std::cout << "log: " << w.ulps << " ulp at " << w.at << "\n";
}
TEST(ScalarOps, TanhIsWithinTwoUlps) {
  const Worst w = sweep([](float x) { return scalar::tanh(x); }, [](double x) { return std::tanh(x); });
  EXPECT_LE(w.ulps, 2) << "at " << w.at;
  std::cout << "tanh: " << w.ulps << " ulp at " << w.at << "\n";
}
TEST(ScalarOps, SigmoidIsWithinTwoUlps) {
  const Worst w = sweep([](float x) { return scalar::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); });
  EXPECT_LE(w.ulps, 2) << "at " << w.at;
  std::cout << "sigmoid: " << w.ulps << " ulp at " << w.at << "\n";
}

TEST(ScalarOps, OddAndEvenFunctionsKeepTheirSigns) {
  for (float x : {0.0f, 1e-40f, 1e-10f, 0.3f, 0.7f, 3.0f, 50.0f}) {
    EXPECT_EQ(scalar::tanh(-x), -scalar::tanh(x)) << x;
    EXPECT_LE(std::abs(scalar::tanh(x)), 1.0f) << x;
    EXPECT_LE(scalar::sigmoid(x), 1.0f) << x;
  }
  EXPECT_TRUE(std::signbit(scalar::tanh(-0.0f)));
}

TEST(ScalarOps, EveryOperationHasANameAndOperands) {
  for (int i = 0; i < kScalarOps; ++i) {
    EXPECT_NE(std::string(name(ScalarOp(i))), "?") << i;
    EXPECT_TRUE(operands(ScalarOp(i)) >= 1 && operands(ScalarOp(i)) <= 3) << i;
  }
}

}  // namespace
}  // namespace lamina::kernels
