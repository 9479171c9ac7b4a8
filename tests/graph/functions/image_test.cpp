// Convolution, pooling and normalisation as users call them; the ops themselves are checked in tests/ops.
#include "graph/functions/image.h"

#include <gtest/gtest.h>

#include <array>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/normalize.h"
#include "graph/functions/op_functions.h"
#include "runtime/device/backend.h"
#include "tests/graph/nn/near.h"

namespace lamina {
namespace {

using test::Doubles;

Tensor drawn(const Shape& shape, uint32_t seed, DType dtype = DType::f32) {
  return test::tensor_of(test::draws(size_t(size_of(shape).number()), seed), shape, dtype);
}

TEST(Conv1d, IsAConvolutionOfOneRow) {
  const Tensor x = tensor({1, 2, 3, 4, 5}, {1, 5, 1}), w = tensor({1, 0, -1}, {3, 1, 1});
  EXPECT_EQ(conv1d(x, w).to_vector<float>(), (std::vector<float>{-2, -2, -2}));
  EXPECT_EQ(conv1d(x, w, {.padding = "same"}).to_vector<float>(), (std::vector<float>{-2, -2, -2, -2, 4}));
  EXPECT_EQ(conv1d(x, w, {.stride = 2}).to_vector<float>(), (std::vector<float>{-2, -2}));
  EXPECT_EQ(conv1d(x, w, {.padding = {0, 0, 2, 0}, .dilation = 2}).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(conv1d(zeros({2, 9, 4}), zeros({3, 2, 6}), {.groups = 2}).shape(), (Shape{2, 7, 6}));
  EXPECT_THROW(conv1d(zeros({2, 9}), w), Error);
}

// <conv2d(x), y> = <x, conv2d_transpose(y)> for every x and y: they are adjoint.
TEST(Conv2dTranspose, IsTheAdjointOfConv2d) {
  struct Case {
    const char* padding;
    Pair strides;
    int64_t image, window;
  };
  for (const Case& c : {Case{"same", {2, 2}, 8, 3}, Case{"valid", {2, 3}, 9, 3}, Case{"same", {1, 1}, 5, 4}, Case{"valid", {1, 1}, 5, 4}}) {
    const Tensor w = drawn({c.window, c.window, 3, 4}, 1, DType::f64);
    const Conv2dOptions options{.strides = c.strides, .padding = c.padding};
    const Tensor y = conv2d(drawn({2, c.image, c.image, 3}, 2, DType::f64), w, options);
    const Tensor back = drawn(y.shape(), 3, DType::f64);
    const Tensor x = conv2d_transpose(back, w, {.strides = c.strides, .padding = c.padding});
    const Tensor image = drawn(x.shape(), 4, DType::f64), seen = conv2d(image, w, options);
    ASSERT_EQ(seen.shape(), back.shape()) << c.padding;
    const double left = sum(seen * back).item<double>(), right = sum(image * x).item<double>();
    EXPECT_NEAR(left, right, 1e-11 * std::abs(left)) << c.padding << " " << c.strides[0];
  }
  EXPECT_EQ(
      conv2d_transpose(zeros({1, 4, 4, 2}), zeros({3, 3, 5, 2}), {.strides = {2, 2}, .padding = {1, 1, 1, 1}, .output_padding = {1, 0}})
          .shape(),
      (Shape{1, 8, 7, 5}));
  EXPECT_THROW(conv2d_transpose(zeros({1, 4, 4, 2}), zeros({3, 3, 5, 2}), {.output_padding = {5, 0}}), Error);
}

// The null device simulates a GPU with every library.
TEST(MaxPool2d, RunsByOurKernelsOnAGpuAtAnySize) {
  for (const int64_t side : {8, 2048}) {
    GradientTape tape;
    const Tensor x = zeros({1, side, side, 4}).to(parse_device("null:h100"));
    tape.watch(x);
    take_null_record();
    const Tensor y = max_pool2d(x, {2, 2});
    tape.gradient(std::array{y}, std::array{Source(x)}, std::array{ones(y.shape()).to(x.device())});
    std::string out;
    for (const std::string& line : take_null_record())
      if (line.starts_with("launch max_pool2d")) out += line.substr(7, line.find(' ', 7) - 6);
    EXPECT_EQ(out, "max_pool2d max_pool2d_grad ") << side;
  }
}

TEST(AvgPool2d, LeavesPaddingOutOfTheMean) {
  const Tensor x = reshape(astype(arange(9), DType::f32), {1, 3, 3, 1});
  EXPECT_EQ(avg_pool2d(x, {2, 2}, {1, 1}).to_vector<float>(), (std::vector<float>{2, 3, 5, 6}));
  test::expect_near(avg_pool2d(x, {2, 2}, {2, 2}, "same"), {2, 3.5, 6.5, 8}, 1e-6);
  test::expect_near(avg_pool2d(x, {3, 3}, {3, 3}, {1, 1, 1, 1}), {2}, 1e-6);
  EXPECT_EQ(max_pool2d(x, {2, 2}, {1, 1}).to_vector<float>(), (std::vector<float>{4, 5, 7, 8}));
  EXPECT_EQ(global_avg_pool2d(x).to_vector<float>(), (std::vector<float>{4}));
  EXPECT_EQ(global_max_pool2d(x, true).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_THROW(avg_pool2d(x, {0, 1}), Error);
  EXPECT_THROW(avg_pool2d(zeros({3, 3}), {1, 1}), Error);
}

TEST(ImagePadding, HasNames) {
  EXPECT_EQ(test::error_of([] { ImagePadding("some"); }), "not found: there is no padding named 'some'");
  EXPECT_EQ(ImagePadding("same").name(), "same");
}

// A small convolutional network's cost differentiated three times, eagerly and traced, in f64 against differences of the second derivative.
TEST(Conv2d, HasDerivativesOfThirdOrder) {
  const Tensor w = drawn({2, 2, 2, 3}, 1, DType::f64), v = drawn({2, 2, 3, 2}, 2, DType::f64), x0 = drawn({1, 5, 4, 2}, 3, DType::f64),
               direction = drawn({1, 5, 4, 2}, 4, DType::f64);
  auto cost = [&](const Tensor& x) {
    const Tensor h = tanh(conv2d(x, w, {.padding = "same"}));
    return sum(square(avg_pool2d(conv2d(h * h, v, {.strides = {2, 1}}), {1, 2})));
  };
  auto third = [&](Tensor x) {
    GradientTape outer;
    outer.watch(x);
    GradientTape middle;
    middle.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Tensor first = inner.gradient(cost(x), x)[0];
    const Tensor second = middle.gradient(sum(first * direction), x)[0];
    return stack({second, outer.gradient(sum(second * direction), x)[0]});
  };
  const Doubles eager = third(x0).to_vector<double>(), traced = function(third)(x0).to_vector<double>();
  test::expect_near(traced, eager, 1e-10);
  const size_t n = eager.size() / 2;
  const double step = 1e-4;
  const Doubles above = third(x0 + direction * step).to_vector<double>(), below = third(x0 - direction * step).to_vector<double>();
  Doubles differences;
  for (size_t i = 0; i < n; ++i) differences.push_back((above[i] - below[i]) / (2 * step));
  test::expect_near(Doubles(eager.begin() + int64_t(n), eager.end()), differences, 1e-6);
}

TEST(LayerNorm, BringsEachRowToMean0AndVariance1) {
  const Tensor x = drawn({4, 6}, 1, DType::f64);
  const Tensor y = layer_norm(x, {}, {}, {-1}, 1e-12);
  test::expect_near(mean(y, {-1}) + 1.0, Doubles(4, 1), 1e-12);
  test::expect_near(mean(square(y), {-1}), Doubles(4, 1), 1e-9);
  const Tensor scale = drawn({6}, 2, DType::f64), offset = drawn({6}, 3, DType::f64);
  test::expect_near(layer_norm(x, scale, offset, {-1}, 1e-12), (y * scale + offset).to_vector<double>(), 1e-12);
}

// A dense, residual and normalised chain is one section: every part fits a step.
TEST(LayerNorm, ResidualChainsAreOneSection) {
  const Variable w(drawn({16, 16}, 1)), v(drawn({16, 16}, 2)), scale(ones({16})), offset(zeros({16}));
  auto net = function([&](Tensor x) {
    for (int i = 0; i < 3; ++i) x = x + matmul(relu(matmul(layer_norm(x, scale.read(), offset.read()), w)), v);
    return x;
  });
  const Tensor x = drawn({8, 16}, 3);
  net(x);
  EXPECT_EQ(net.concrete(x).instructions().size(), 1u) << net.explain(x);
}

TEST(BatchNorm, UsesTheGivenStatistics) {
  const Tensor x = drawn({3, 2, 2, 4}, 1, DType::f64);
  const auto [center, variance] = moments(x, {0, 1, 2});
  EXPECT_EQ(center.shape(), (Shape{4}));
  const Tensor y = batch_norm(x, center, variance, {}, {}, 1e-12);
  test::expect_near(moments(y, {0, 1, 2}).variance, Doubles(4, 1), 1e-9);
  test::expect_near(mean(y, {0, 1, 2}) + 1.0, Doubles(4, 1), 1e-12);
}

TEST(EmbeddingLookup, ItsGradientAddsUpRepeatedRows) {
  const Variable table(drawn({5, 3}, 1));
  GradientTape tape;
  const Tensor rows = embedding_lookup(table, tensor(std::vector<int32_t>{1, 3, 1, 1}));
  EXPECT_EQ(rows.shape(), (Shape{4, 3}));
  EXPECT_EQ(tape.gradient(sum(rows), table)[0].to_vector<float>(), (std::vector<float>{0, 0, 0, 3, 3, 3, 0, 0, 0, 1, 1, 1, 0, 0, 0}));
}

}  // namespace
}  // namespace lamina
