// The polynomials of kernels/shared/scalar_ops.h against double precision, over all exponents.
#include "kernels/shared/scalar_ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace lamina::kernels {
namespace {

// The distance from the true value in ulp of the nearest float.
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
// Every exponent, with enough numbers for a sweep of some hundredths of a second; with LAMINA_TEST_LONG=1 a hundred times as many.
template <class F, class D>
Worst sweep(F f, D reference, bool coarse = false) {
  Worst worst;
  coarse = coarse && !std::getenv("LAMINA_TEST_LONG");
  auto look = [&](float x) {
    if (double u = ulps(f(x), reference(double(x))); u > worst.ulps) worst = {u, x};
  };
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += coarse ? 200003 : 4099) look(std::bit_cast<float>(uint32_t(bits)));
  for (int i = -400000; i <= 400000; i += coarse ? 40 : 1) look(float(i) * 0.0003f);  // densely where the functions bend
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

TEST(ScalarOps, FunctionsComputedInDoubleAreRoundedOnce) {
  auto check = [](const char* name, float (*f)(float), double (*reference)(double), double allowed = 0.52) {
    const Worst w = sweep(f, reference, true);
    EXPECT_LE(w.ulps, allowed) << name << " at " << w.at;
    std::cout << name << ": " << w.ulps << " ulp at " << w.at << "\n";
  };
#define LAMINA_CHECK(name, ...) \
  check(#name, [](float x) { return scalar::name(x); }, [](double x) { return std::name(x); } __VA_OPT__(, ) __VA_ARGS__)
  LAMINA_CHECK(acos);
  LAMINA_CHECK(acosh);
  LAMINA_CHECK(asin);
  LAMINA_CHECK(asinh);
  LAMINA_CHECK(atan);
  LAMINA_CHECK(atanh);
  LAMINA_CHECK(cbrt);
  LAMINA_CHECK(cos, 1);  // large arguments use the C library
  LAMINA_CHECK(cosh);
  LAMINA_CHECK(erf);
  LAMINA_CHECK(erfc);
  LAMINA_CHECK(exp2);
  LAMINA_CHECK(expm1);
  LAMINA_CHECK(log10);
  LAMINA_CHECK(log1p);
  LAMINA_CHECK(log2);
  LAMINA_CHECK(sin, 1);
  LAMINA_CHECK(sinh);
  LAMINA_CHECK(tan, 2);
#undef LAMINA_CHECK
}

TEST(ScalarOps, PowersAndAnglesFollowTheCLibrary) {
  for (float b :
       {2.0f, 3.0f, 0.5f, -1.5f, 7.25f, -3.0f, 0.0f, 1e-3f, 33.0f, 16777216.0f, 16777215.0f, std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), -0.0f, 1e-40f, 1.0f, -1.0f}) {
    const Worst to_b = sweep([b](float x) { return scalar::pow(x, b); }, [b](double x) { return std::pow(x, double(b)); }, true);
    EXPECT_LE(to_b.ulps, 0.52) << to_b.at << " to the power " << b;
    const Worst of_b = sweep([b](float x) { return scalar::pow(b, x); }, [b](double x) { return std::pow(double(b), x); }, true);
    EXPECT_LE(of_b.ulps, 0.52) << b << " to the power " << of_b.at;
    const Worst angle = sweep([b](float x) { return scalar::atan2(x, b); }, [b](double x) { return std::atan2(x, double(b)); }, true);
    EXPECT_LE(angle.ulps, 0.52) << "atan2 of " << angle.at << " and " << b;
  }
}

TEST(ScalarOps, ActivationsAreWithinTheirBounds) {
  auto check = [](const char* name, float (*f)(float), double (*reference)(double), double allowed) {
    const Worst w = sweep(f, reference, true);
    EXPECT_LE(w.ulps, allowed) << name << " at " << w.at;
    std::cout << name << ": " << w.ulps << " ulp at " << w.at << "\n";
  };
  check("elu", [](float x) { return scalar::elu(x, 1.0f); }, [](double x) { return x > 0 ? x : std::expm1(x); }, 1.5);
  check(
      "softplus", [](float x) { return scalar::softplus(x); },
      [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }, 3);
  check(
      "silu", [](float x) { return scalar::silu(std::max(x, -80.0f)); },
      [](double x) { return std::max(x, -80.0) / (1 + std::exp(-std::max(x, -80.0))); }, 4);
  check(
      "gelu", [](float x) { return scalar::gelu(std::max(x, -12.0f)); },
      [](double x) { return 0.5 * std::max(x, -12.0) * std::erfc(-std::max(x, -12.0) * M_SQRT1_2); }, 8);
}

TEST(ScalarOps, OddAndEvenFunctionsKeepTheirSigns) {
  for (float x : {0.0f, 1e-40f, 1e-10f, 0.3f, 0.7f, 3.0f, 50.0f}) {
    EXPECT_EQ(scalar::tanh(-x), -scalar::tanh(x)) << x;
    EXPECT_LE(std::abs(scalar::tanh(x)), 1.0f) << x;
    EXPECT_LE(scalar::sigmoid(x), 1.0f) << x;
  }
  EXPECT_TRUE(std::signbit(scalar::tanh(-0.0f)));
  EXPECT_TRUE(std::signbit(scalar::expm1(-0.0f)));
}

TEST(ScalarOps, EveryOperationHasANameAndOperands) {
  for (int i = 0; i < kScalarOps; ++i) {
    EXPECT_NE(std::string(name(ScalarOp(i))), "?") << i;
    EXPECT_TRUE(operands(ScalarOp(i)) >= 1 && operands(ScalarOp(i)) <= 3) << i;
  }
}

}  // namespace
}  // namespace lamina::kernels
