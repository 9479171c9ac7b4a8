#include "graph/nn/activation.h"

#include <gtest/gtest.h>

#include "graph/frontend/tape.h"
#include "graph/functions/op_functions.h"
#include "tests/graph/nn/near.h"

namespace lamina::nn {
namespace {

using test::Doubles;

// Checks each element, because values span many orders of magnitude; and the derivative against the formula.
void expect_activation(const char* name, double (*f)(double), double (*derivative)(double), double tolerance32, double tolerance64) {
  SCOPED_TRACE(name);
  const Doubles points{-30, -12, -6.5, -3, -1, -0.25, -0.001, 0, 0.001, 0.25, 1, 3, 6.5, 12, 30};
  for (DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = dtype == DType::f32 ? tolerance32 : tolerance64;
    const double epsilon = dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
    const Tensor x = test::tensor_of(points, {int64_t(points.size())}, dtype);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = Activation(name)(x);
    const Doubles values = y.to_vector<double>(), slopes = tape.gradient(y, x)[0].to_vector<double>();
    for (size_t i = 0; i < points.size(); ++i) {
      const double at = dtype == DType::f32 ? double(float(points[i])) : points[i];
      EXPECT_NEAR(values[i], f(at), tolerance * std::abs(f(at)) + 1e-300) << "x = " << at << ' ' << dtype;
      // Derivatives are computed from the result, as in y (1 - y): near 1 this leaves an error of two neighbouring floats.
      EXPECT_NEAR(slopes[i], derivative(at), tolerance * 4 * std::abs(derivative(at)) + 2 * epsilon)
          << "derivative at " << at << ' ' << dtype;
    }
  }
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Activation, ComputesItsFormulaAndDerivative) {
  expect_activation("linear", [](double x) { return x; }, [](double) { return 1.0; }, 0, 0);
  expect_activation("sigmoid", logistic, [](double x) { return logistic(x) * logistic(-x); }, 2e-6, 1e-13);
  expect_activation("softplus", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }, logistic, 1e-6, 1e-14);
  expect_activation(
      "silu", [](double x) { return x * logistic(x); }, [](double x) { return logistic(x) * (1 + x * logistic(-x)); }, 2e-6, 1e-12);
  expect_activation("tanh", [](double x) { return std::tanh(x); }, [](double x) { return 1 - std::tanh(x) * std::tanh(x); }, 2e-6, 1e-13);
}

TEST(Activation, GeluHasErfAndItsApproximationTanh) {
  const Doubles points = test::draws(200, 1, -5, 5);
  const Doubles exact = Activation("gelu")(test::tensor_of(points, {200})).to_vector<double>();
  const Doubles approximate = Activation("gelu_tanh")(test::tensor_of(points, {200})).to_vector<double>();
  for (size_t i = 0; i < points.size(); ++i) {
    const double x = double(float(points[i]));
    EXPECT_NEAR(exact[i], x * std::erfc(-x / std::sqrt(2.0)) / 2, 1e-6 * std::max(1.0, std::abs(x)));
    EXPECT_NEAR(approximate[i], 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))),
                1e-6 * std::max(1.0, std::abs(x)));
  }
}

TEST(Activation, SoftmaxSumsToOneOverTheLastAxis) {
  const Tensor y = Activation("softmax")(test::tensor_of(test::draws(12, 3, -4, 4), {3, 4}));
  test::expect_near(sum(y, {-1}), {1, 1, 1}, 1e-6);
  test::expect_near(exp(Activation("log_softmax")(log(y))), y.to_vector<double>(), 1e-6);
}

TEST(Activation, AcceptsNamesAndFunctions) {
  EXPECT_EQ(Activation("relu").name(), "relu");
  EXPECT_EQ(Activation().name(), "linear");
  EXPECT_EQ(Activation("twice", [](const Operand& x) { return x * 2; })(scalar(3)).item<float>(), 6);
  EXPECT_EQ(test::error_of([] { Activation("rleu"); }).rfind("not found: ", 0), 0u);
}

}  // namespace
}  // namespace lamina::nn
