// Layers over sequences and images in C++. Their numbers are compared with NumPy in tests/python/test_layers.py.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/random.h"
#include "graph/nn/attention.h"
#include "graph/nn/conv.h"
#include "graph/nn/normalization.h"
#include "graph/nn/recurrent.h"
#include "graph/nn/sequential.h"
#include "graph/nn/shape_layers.h"
#include "tests/graph/nn/near.h"

namespace lamina::nn {
namespace {

std::vector<double> all(const Tensor& t) { return t.to_vector<double>(); }

TEST(Recurrent, AStepOfEachKindByHand) {
  const Tensor x = tensor({0.5}, {1, 1, 1});
  const auto run = [&](Recurrent&& layer, const std::vector<Tensor>& weights) {
    layer(x);
    layer.set_weights(weights);
    return all(layer(x))[0];
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  EXPECT_NEAR(run(SimpleRNN(1), {tensor({2}, {1, 1}), tensor({3}, {1, 1}), tensor({0.1}, {1})}), std::tanh(1.1), 1e-6);
  const double c = sigmoid(0.5) * std::tanh(1.5);
  EXPECT_NEAR(run(LSTM(1), {tensor({1, 2, 3, 4}, {1, 4}), tensor({0, 0, 0, 0}, {1, 4}), tensor({0, 0, 0, 0}, {4})}),
              sigmoid(2) * std::tanh(c), 1e-6);
  EXPECT_NEAR(run(GRU(1), {tensor({1, 2, 3}, {1, 3}), tensor({0, 0, 0}, {1, 3}), tensor({0, 0, 0, 0, 0, 2}, {2, 3})}),
              (1 - sigmoid(0.5)) * std::tanh(1.5 + sigmoid(1) * 2), 1e-6);
}

TEST(Recurrent, EagerAndTracedAgreeForAnyLength) {
  RecurrentOptions options{.return_sequences = true, .name = "rnn"};
  for (const auto kind : {Recurrent::Kind::simple, Recurrent::Kind::lstm, Recurrent::Kind::gru}) {
    Recurrent layer(kind, 3, options);
    const auto step = function([&](Tensor x) { return layer(x); });
    for (const int64_t length : {0, 1, 5}) {
      const Tensor x = random::normal({2, length, 4});
      EXPECT_EQ(all(layer(x)), all(step(x))) << length;
    }
    EXPECT_EQ(layer.variables().size(), 3u);
  }
}

TEST(Recurrent, AMaskKeepsTheState) {
  GRU layer(2);
  const Tensor x = random::normal({1, 4, 3});
  layer(x);
  const auto whole = layer.run(x, tensor_from(std::vector<uint8_t>{1, 1, 0, 0}.data(), 4, {DType::boolean, {1, 4}}), {}, true);
  const auto half = layer.run(index(Operand(x), {IndexPart::range(), IndexPart::range(0, 2)}), {}, {}, false);
  EXPECT_EQ(all(whole.state[0]), all(half.state[0]));
  const std::vector<double> y = all(whole.sequence);
  EXPECT_EQ(std::vector<double>(y.begin() + 6, y.end()), all(half.state[0]));
  EXPECT_THROW(layer.run(x, ones({1, 4}), {}, false), Error);
  EXPECT_THROW(layer.run(x, {}, {ones({1, 3})}, false), Error);
}

TEST(Recurrent, TrainsInOneTracedStep) {
  Sequential net;
  auto both = [](bool back) {
    return std::make_shared<GRU>(3,
                                 RecurrentOptions{.return_sequences = true, .go_backwards = back, .name = back ? "backward" : "forward"});
  };
  net.add(std::make_shared<Bidirectional>(both(false), both(true)));
  net.add<LSTM>(2);
  const Tensor x = random::normal({8, 5, 2});
  const auto slopes = function([&](Tensor v) {
    GradientTape tape;
    const Tensor cost = mean(Operand(square(net(v, true))));
    return tape.gradient(cost, net.trainable_variables());
  });
  net(x);
  const std::vector<Tensor> made = slopes(x);
  ASSERT_EQ(made.size(), 9u);
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].type(), net.trainable_variables()[i].type());
    double size = 0;
    for (const double v : all(made[i])) size += std::abs(v);
    EXPECT_TRUE(size > 0 && std::isfinite(size)) << i;
  }
  EXPECT_THROW(Bidirectional(both(false), both(false)), Error);
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  EXPECT_THROW(LSTM(0), Error);
  EXPECT_THROW(LSTM(2)(ones({2, 3})), Error);
  EXPECT_THROW(LSTM(2)(ones({2, 3, 4}, DType::i32)), Error);
  EXPECT_EQ(LSTM(2)(ones({2, 3, 4}, DType::f64)).dtype(), DType::f32);
  LSTM layer(2);
  layer(ones({2, 3, 4}));
  EXPECT_THROW(layer(ones({2, 3, 5})), Error);
  EXPECT_THROW(LSTM(2).run(ones({2, 3, 4}), {}, {}, false), Error);
}

TEST(Attention, WeightsAreSharesAndAMaskHidesKeys) {
  MultiHeadAttention layer(2, 3);
  const Tensor x = random::normal({2, 4, 6});
  layer(x);
  const auto seen = layer.attend(x, x, {}, {}, true, false);
  EXPECT_EQ(text(seen.output.type()), "f32[2,4,6]");
  EXPECT_EQ(text(seen.weights.type()), "f32[2,2,4,4]");
  const std::vector<double> w = all(seen.weights);
  for (size_t row = 0; row < w.size() / 4; ++row) {
    double total = 0;
    for (size_t k = 0; k < 4; ++k) {
      total += w[4 * row + k];
      EXPECT_TRUE(k <= row % 4 || w[4 * row + k] == 0);
    }
    EXPECT_NEAR(total, 1, 1e-6);
  }
  EXPECT_THROW(layer.attend(x, x, {}, ones({4, 4}), false, false), Error);
  EXPECT_THROW(MultiHeadAttention(0, 3), Error);
  EXPECT_THROW(MultiHeadAttention(1, 3)(ones({2, 6})), Error);
}

TEST(ShapeLayers, ReshapeKeepsTheBatch) {
  EXPECT_EQ(text(Reshape({3, -1})(ones({2, 6, 2})).type()), "f32[2,3,4]");
  EXPECT_THROW(Reshape({5, -1})(ones({2, 6, 2})), Error);
  EXPECT_THROW(Reshape({-1, -1})(ones({2, 6})), Error);
  EXPECT_EQ(all(Lambda([](const Tensor& x) { return x * 2; })(ones({1, 2}))), (std::vector<double>{2, 2}));
}

TEST(ImageLayers, ShapesOfTheirResults) {
  const Tensor image = random::normal({2, 6, 5, 4}), line = random::normal({2, 7, 4});
  EXPECT_EQ(text(DepthwiseConv2D({3, 2}, 2)(image).type()), "f32[2,4,4,8]");
  EXPECT_EQ(text(Conv1DTranspose(3, 4, {.strides = {1, 2}, .name = "up"})(line).type()), "f32[2,16,3]");
  EXPECT_EQ(text(MaxPool1D(2)(line).type()), "f32[2,3,4]");
  EXPECT_EQ(text(AveragePooling1D(3, 1)(line).type()), "f32[2,5,4]");
  EXPECT_EQ(text(UpSampling2D({2, 3})(image).type()), "f32[2,12,15,4]");
  EXPECT_EQ(text(ZeroPadding2D({1, 2, 0, 3})(image).type()), "f32[2,9,8,4]");
  EXPECT_EQ(text(GroupNorm({.groups = 2})(image).type()), "f32[2,6,5,4]");
  EXPECT_EQ(text(RMSNorm()(line).type()), "f32[2,7,4]");
  EXPECT_THROW(GroupNorm({.groups = 3})(image), Error);
  EXPECT_THROW(UpSampling2D()(line), Error);
  EXPECT_THROW(MaxPool1D(2)(image), Error);
}

}  // namespace
}  // namespace lamina::nn
