#include "graph/nn/conv.h"

#include <gtest/gtest.h>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/nn/dense.h"
#include "graph/nn/loss.h"
#include "graph/nn/normalization.h"
#include "graph/nn/optimizer.h"
#include "graph/nn/sequential.h"
#include "graph/nn/shape_layers.h"
#include "tests/graph/nn/near.h"

namespace lamina::nn {
namespace {

TEST(Conv2D, MakesFiltersForItsInput) {
  Conv2D layer(6, {3, 2}, {.strides = {2, 1}, .padding = "same", .groups = 2, .activation = "relu"});
  EXPECT_EQ(layer(zeros({2, 7, 5, 4})).shape(), (Shape{2, 4, 5, 6}));
  EXPECT_EQ(text(layer.kernel().type()), "f32[3,2,2,6]");
  EXPECT_EQ(layer.count_params(), 3 * 2 * 2 * 6 + 6);
  EXPECT_EQ(Conv2D(3, {1, 1}, {.use_bias = false})(ones({1, 2, 2, 1})).shape(), (Shape{1, 2, 2, 3}));
  Conv2DTranspose larger(5, {3, 3}, {.strides = {2, 2}, .padding = "same"});
  EXPECT_EQ(larger(zeros({1, 4, 4, 2})).shape(), (Shape{1, 8, 8, 5}));
  EXPECT_EQ(text(larger.kernel().type()), "f32[3,3,5,2]");
  Conv1D line(4, 3, {.padding = "same"});
  EXPECT_EQ(line(zeros({2, 9, 3})).shape(), (Shape{2, 9, 4}));
}

TEST(Conv2D, RefusesInvalidInputs) {
  EXPECT_THROW(Conv2D(0, {3, 3}), Error);
  EXPECT_THROW(Conv2D(4, {3, 0}), Error);
  EXPECT_THROW(Conv2D(4, {3, 3}, {.groups = 3}), Error);
  EXPECT_THROW(Conv2D(4, {3, 3})(zeros({4, 4})), Error);
  EXPECT_THROW(Conv2D(4, {3, 3}, {.groups = 2})(zeros({1, 4, 4, 3})), Error);
  EXPECT_EQ(test::error_of([] { Conv2D(4, {3, 3})(zeros({1, 4, 4, 3}, DType::i32)); }), "type mismatch: conv2d: cannot take i32[1,4,4,3]");
}

TEST(BatchNorm, MovesItsStatisticsInTrainingOnly) {
  BatchNorm layer({.momentum = 0.75});
  const Tensor x = test::tensor_of(test::draws(24, 1, 2, 6), {12, 2});
  const Tensor still = layer(x, false);
  test::expect_near(still, (x * float(1 / std::sqrt(1.001))).to_vector<double>(), 1e-6);
  EXPECT_EQ(layer.moving_mean().read().to_vector<float>(), (std::vector<float>{0, 0}));
  const auto [center, variance] = moments(x, {0});
  const Tensor y = layer(x, true);
  test::expect_near(mean(square(y), {0}), {1, 1}, 2e-3);
  test::expect_near(layer.moving_mean().read(), (center * 0.25f).to_vector<double>(), 1e-6);
  test::expect_near(layer.moving_variance().read(), (variance * 0.25f + 0.75f).to_vector<double>(), 1e-6);
  EXPECT_EQ(layer.trainable_variables().size(), 2u);
  EXPECT_EQ(layer.non_trainable_variables().size(), 2u);
  EXPECT_THROW(layer(zeros({3, 3})), Error);
  EXPECT_THROW(BatchNorm({.momentum = 2}), Error);
}

TEST(LayerNorm, NormalisesTheLastAxes) {
  LayerNorm layer({.axes = {-2, -1}});
  EXPECT_EQ(layer(test::tensor_of(test::draws(24, 1), {2, 3, 4})).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(text(layer.gamma()->type()), "f32[3,4]");
  EXPECT_THROW(LayerNorm({.axes = {0}})(zeros({2, 3})), Error);
  EXPECT_THROW(LayerNorm({.axes = {}}), Error);
}

TEST(Embedding, LooksUpRows) {
  Embedding layer(5, 3);
  EXPECT_EQ(layer(tensor(std::vector<int32_t>{0, 4, 2, 2}, {2, 2})).shape(), (Shape{2, 2, 3}));
  EXPECT_THROW(layer(tensor(std::vector<int32_t>{5})), Error);
  EXPECT_THROW(Embedding(5, 3)(ones({2})), Error);
}

// Horizontal and vertical bars: a network with every image layer learns them, eagerly and traced alike.
TEST(Conv2D, NetworksLearn) {
  constexpr int64_t kImages = 32, kSide = 8;
  std::vector<float> pixels(size_t(kImages * kSide * kSide), 0.f);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kImages; ++i) {
    labels.push_back(int32_t(i % 2));
    for (int64_t p = 0; p < kSide; ++p) pixels[size_t(i * kSide * kSide + (i % 2 ? p * kSide + i / 4 : i / 4 * kSide + p))] = 1;
  }
  const Tensor x = tensor(pixels, {kImages, kSide, kSide, 1}), y = tensor(labels);
  std::vector<double> costs[2];
  for (bool traced : {false, true}) {
    random::set_seed(3);
    Sequential net;
    net.add<Conv2D>(8, Pair{3, 3}, ConvOptions{.padding = "same", .activation = "relu"});
    net.add<BatchNorm>();
    net.add<MaxPool2D>();
    net.add<Conv2D>(8, Pair{3, 3}, ConvOptions{.activation = "relu"});
    net.add<AveragePooling2D>(Pair{2, 2}, Pair{1, 1}, "same");
    net.add<GlobalAveragePool2D>();
    net.add<LayerNorm>();
    net.add<Dense>(2);
    optim::Adam adam(0.02);
    const losses::SparseCrossEntropy loss(true);
    auto step = [&](Tensor image, Tensor label) {
      GradientTape tape;
      const Tensor cost = loss(label, net(image, true));
      const auto variables = net.trainable_variables();
      adam.apply_gradients(tape.gradient(cost, variables), variables);
      return cost;
    };
    net(x);
    auto graph = function(step);
    for (int i = 0; i < 25; ++i) costs[traced].push_back((traced ? graph(x, y) : step(x, y)).item<double>());
    EXPECT_LT(costs[traced].back(), 0.1 * costs[traced].front());
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(costs[0][i], costs[1][i], 1e-3 * costs[0][i]) << i;
}

}  // namespace
}  // namespace lamina::nn
