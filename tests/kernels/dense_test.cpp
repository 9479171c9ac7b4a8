// What follows a library's product: activations and their slopes as elementwise programs.
#include "kernels/dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/core/error.h"

namespace lamina::kernels {
namespace {

using section::Activation;

constexpr double kAlpha = 0.25;  // a float has it exactly

double formula(Activation a, double x) {
  switch (a) {
    case Activation::none: return x;
    case Activation::relu: return std::max(x, 0.0);
    case Activation::tanh: return std::tanh(x);
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::elu: return x > 0 ? x : kAlpha * std::expm1(x);
    case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::leaky_relu: return x > 0 ? x : kAlpha * x;
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::softplus: return std::log1p(std::exp(x));
  }
  return NAN;
}

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
  for (int a = int(Activation::relu); a <= int(Activation::softplus); ++a) {
    const auto activation = Activation(a);
    for (double x : {-2.5, -0.75, -0.125, 0.25, 1.0, 3.0}) {
      SCOPED_TRACE(cat(section::name(activation), " of ", x));
      const double y = formula(activation, x), h = 1e-6, slope = (formula(activation, x + h) - formula(activation, x - h)) / (2 * h);
      EXPECT_NEAR(run(activation_code(activation, DType::f64, kAlpha), {x}), y, 1e-12);
      EXPECT_NEAR(run(activation_grad_code(activation, DType::f64, kAlpha), {3.0, section::of_input(activation) ? x : y}), 3 * slope, 1e-8);
    }
  }
  EXPECT_TRUE(activation_code(Activation::none, DType::f32, 0).instructions.empty());
}

}  // namespace
}  // namespace lamina::kernels
