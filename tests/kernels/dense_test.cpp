// Elementwise programs after a library's product: activations and their slopes.
#include "kernels/dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/core/error.h"
#include "tests/ops/elementwise_rows.h"

namespace lamina::kernels {
namespace {

using section::Activation;

constexpr double kAlpha = 0.25;  // exact as a float

double run(const ElementwiseCode& code, std::vector<double> in) {
  std::vector<View> views(in.size() + 1);
  std::vector<const View*> ins;
  double result = NAN;
  for (size_t i = 0; i < in.size(); ++i) views[i].data = &in[i], views[i].dtype = DType::f64, ins.push_back(&views[i]);
  views.back().data = &result, views.back().dtype = DType::f64;
  const View* const outs[] = {&views.back()};
  Stream stream;
  cpu::elementwise(stream, ins, outs, code);
  return result;
}

TEST(DensePrograms, AreTheActivationsAndTheirSlopes) {
  for (const section::ActivationRow& row : section::kActivations) {
    const Activation activation = row.activation;
    const auto formula = [f = tests::elementwise_row(row.name).f](double x) { return f(x, kAlpha, 0); };
    for (double x : {-2.5, -0.75, -0.125, 0.25, 1.0, 3.0}) {
      SCOPED_TRACE(cat(section::name(activation), " of ", x));
      const double y = formula(x), h = 1e-6, slope = (formula(x + h) - formula(x - h)) / (2 * h);
      EXPECT_NEAR(run(activation_code(activation, DType::f64, kAlpha), {x}), y, 1e-12);
      EXPECT_NEAR(run(activation_grad_code(activation, DType::f64, kAlpha), {3.0, section::of_input(activation) ? x : y}), 3 * slope, 1e-8);
    }
  }
  EXPECT_TRUE(activation_code(Activation::none, DType::f32, 0).instructions.empty());
}

}  // namespace
}  // namespace lamina::kernels
