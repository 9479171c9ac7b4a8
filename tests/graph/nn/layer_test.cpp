#include "graph/nn/layer.h"

#include <gtest/gtest.h>

#include "graph/frontend/tape.h"
#include "graph/frontend/trace.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/nn/dense.h"
#include "graph/nn/sequential.h"
#include "graph/nn/shape_layers.h"
#include "tests/graph/nn/near.h"

namespace lamina::nn {
namespace {

using test::Doubles;

struct Tower : Layer {
  explicit Tower(int depth, Initializer hidden = "glorot_uniform", double rate = 0.2) : Layer("tower") {
    for (int i = 0; i < depth; ++i)
      stack.push_back(&add<Dense>(64, DenseOptions{.activation = "relu", .kernel_initializer = i ? hidden : looks_linear(false)}));
    drop = &add<Dropout>(rate);
    head = &add<Dense>(10);
  }
  Tensor call(const Tensor& x, bool) override {
    Tensor h = flat(x);
    for (Dense* layer : stack) h = (*layer)(h);
    last_hidden = h;
    return (*head)((*drop)(h));
  }
  Flatten& flat = add<Flatten>();
  std::vector<Dense*> stack;
  Dropout* drop;
  Dense* head;
  Tensor last_hidden;
};

TEST(Layer, MakesItsWeightsAtTheFirstCallAndTracksThemAll) {
  Tower net(100);
  EXPECT_TRUE(net.variables().empty());
  net(uniform({20, 28, 28}));
  EXPECT_EQ(net.count_params(), 462730);
  ASSERT_EQ(net.trainable_variables().size(), 202u);
  EXPECT_TRUE(net.non_trainable_variables().empty());
  const std::vector<Variable> all = net.variables();
  EXPECT_EQ(text(all[0].type()), "f32[784,64]");
  EXPECT_EQ(text(all[1].type()), "f32[64]");
  EXPECT_EQ(text(all[200].type()), "f32[64,10]");
  EXPECT_EQ(all[0].name(), "tower/dense/kernel");
  EXPECT_EQ(all[2].name(), "tower/dense_1/kernel");
  EXPECT_EQ(all[201].name(), "tower/dense_100/bias");
  net(uniform({3, 28, 28}));
  EXPECT_TRUE(net.variables()[0].same(all[0]));
}

// With mirrored orthogonal weights a signal passes a hundred layers with its size unchanged; with Glorot's it vanishes.
TEST(Layer, LooksLinearKeepsTheNormThroughAHundredLayers) {
  const auto ratio = [](const Initializer& initializer) {
    random::set_seed(4);
    Tower net(100, initializer, 0);
    const Tensor x = uniform({20, 28, 28});
    net(x);
    const Tensor first = (*net.stack[0])(reshape(x, {20, 784}));
    const auto norm = [](const Tensor& t) { return std::sqrt(sum(square(astype(t, DType::f64))).item<double>()); };
    return norm(net.last_hidden) / norm(first);
  };
  EXPECT_NEAR(ratio(looks_linear()), 1, 1e-5);
  EXPECT_LT(ratio("glorot_uniform"), 1e-10);
}

TEST(Layer, BuiltByATraceOrEagerlyTheWeightsAreTheSame) {
  const auto weights = [](bool traced) {
    random::set_seed(11);
    Tower net(3, "he_normal", 0.5);
    const Tensor x = full({4, 28, 28}, 0.5);
    auto step = [&](Tensor x) { return net(x, true); };
    if (traced)
      function(step)(x);
    else
      step(x);
    std::vector<Doubles> out;
    for (auto& w : net.get_weights()) out.push_back(w.to_vector<double>());
    return out;
  };
  EXPECT_EQ(weights(true), weights(false));
}

TEST(Layer, ATraceThatFailsLeavesALayerThatWorks) {
  Dense first(4), second(3);
  int failures = 1;
  auto f = function([&](Tensor x) {
    const Tensor y = second(first(x));
    if (failures-- > 0) throw Error(ErrorKind::state, {.what = "on purpose", .where = "", .why = "", .fix = ""});
    return y;
  });
  const Tensor x = ones({2, 5});
  EXPECT_THROW(f(x), Error);
  EXPECT_EQ(text(first(x).type()), "f32[2,4]");
  EXPECT_EQ(text(f(x).type()), "f32[2,3]");
  EXPECT_EQ(first.variables().size(), 2u);
  EXPECT_EQ(f(x).to_vector<double>(), second(first(x)).to_vector<double>());
}

struct Probe : Layer {
  Tensor call(const Tensor& x, bool training) override {
    seen.push_back(training);
    return x;
  }
  std::vector<bool> seen;
};
struct Wrap : Layer {
  explicit Wrap(std::optional<bool> inner) : inner(inner) {}
  Tensor call(const Tensor& x, bool) override { return probe(x, inner); }
  Probe& probe = add<Probe>();
  std::optional<bool> inner;
};

TEST(Layer, TrainingReachesTheLayersInside) {
  const Tensor x = ones({1});
  Wrap inherits(std::nullopt), never(false);
  inherits(x);
  inherits(x, true);
  inherits(x);
  never(x, true);
  EXPECT_EQ(inherits.probe.seen, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(never.probe.seen, std::vector<bool>{false});
  EXPECT_FALSE(in_training());
}

TEST(Layer, SharedLayersCountOnceAndTheirGradientsAddUp) {
  auto shared = std::make_shared<Dense>(4, DenseOptions{.kernel_initializer = "ones"});
  Sequential net({shared, shared, shared});
  const Tensor x = ones({1, 4});
  GradientTape tape;
  const Tensor y = sum(net(x));
  EXPECT_EQ(net.count_params(), 20);
  ASSERT_EQ(net.variables().size(), 2u);
  EXPECT_EQ(y.item<float>(), 4 * 64);
  const auto gradients = tape.gradient(y, net.trainable_variables());
  test::expect_near(gradients[0], Doubles(16, 3 * 16), 1e-6);  // each use contributes 16
  test::expect_near(gradients[1], Doubles(4, 16 + 4 + 1), 1e-6);
}

TEST(Layer, SetsWeightsOfTheirTypesOnly) {
  Dense layer(2);
  EXPECT_EQ(test::error_of([&] { layer.set_weights({ones({3, 2})}); }),
            "invalid argument: dense: set_weights got 1 values for 0 variables");
  layer(ones({1, 3}));
  layer.set_weights({full({3, 2}, 2), full({2}, 1)});
  test::expect_near(layer(ones({1, 3})), {7, 7}, 0);
  EXPECT_EQ(test::error_of([&] { layer.set_weights({ones({2, 3}), ones({2})}); }),
            "invalid argument: dense: set_weights got f32[2,3] for dense/kernel, which is f32[3,2]");
  test::expect_near(layer(ones({1, 3})), {7, 7}, 0);
}

TEST(Dense, ComputesTheProductTheBiasAndTheActivation) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const int rows = 7, inputs = 13, units = 5;
    const Doubles x = test::draws(rows * inputs, 1), w = test::draws(inputs * units, 2), b = test::draws(units, 3);
    Dense layer(units, DenseOptions{.activation = "relu", .dtype = dtype});
    const Tensor tx = test::tensor_of(x, {rows, inputs}, dtype);
    layer(tx);
    layer.set_weights({test::tensor_of(w, {inputs, units}, dtype), test::tensor_of(b, {units}, dtype)});
    Doubles wanted(rows * units);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < units; ++c) {
        double s = b[size_t(c)];
        for (int k = 0; k < inputs; ++k) s += x[size_t(r * inputs + k)] * w[size_t(k * units + c)];
        wanted[size_t(r * units + c)] = std::max(s, 0.0);
      }
    }
    const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-14;
    test::expect_near(layer(tx), wanted, tolerance);
    test::expect_near(layer(reshape(tx, {1, rows, inputs})), wanted, tolerance);
    EXPECT_EQ(layer(reshape(tx, {1, rows, inputs})).rank(), 3);
  }
}

TEST(Dense, RefusesInputsThatDoNotFit) {
  Dense layer(4);
  EXPECT_EQ(test::error_of([&] { layer(ones({3})); }), "invalid argument: dense: cannot take f32[3]");
  EXPECT_EQ(test::error_of([&] { layer(ones({2, 3}, DType::i32)); }), "type mismatch: dense: cannot take i32[2,3]");
  EXPECT_EQ(Dense(2)(ones({2, 3}, DType::f64)).dtype(), DType::f32);
  Dense strict(2);
  strict.set_autocast(false);
  EXPECT_EQ(test::error_of([&] { strict(ones({2, 3}, DType::f64)); }), "type mismatch: dense: cannot take f64[2,3]");
  EXPECT_TRUE(layer.variables().empty());
  EXPECT_EQ(test::error_of([&] { layer.kernel(); }), "wrong state: dense: the kernel does not exist yet");
  layer(ones({2, 3}));
  EXPECT_EQ(test::error_of([&] { layer(ones({2, 5})); }), "invalid argument: dense: cannot take f32[2,5]");
  EXPECT_EQ(test::error_of([] { Dense(0); }), "invalid argument: dense: 0 units");
}

TEST(Dense, ErrorsNameTheLineOfTheCall) {
  Dense layer(4);
  try {
    layer(ones({3}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.parts.where.find("layer_test.cpp"), std::string::npos) << e.parts.where;
  }
}

TEST(Dropout, DropsTheRateOnlyInTraining) {
  random::set_seed(3);
  const Tensor x = ones({100, 1000});
  Dropout layer(0.2);
  EXPECT_TRUE(layer(x).same(x));
  const std::vector<float> y = layer(x, true).to_vector<float>();
  int64_t dropped = 0;
  for (float v : y) {
    ASSERT_TRUE(v == 0 || v == 1.25f) << v;
    dropped += v == 0;
  }
  EXPECT_NEAR(double(dropped), 20000, 5 * std::sqrt(100000 * 0.2 * 0.8));
  EXPECT_NE(layer(x, true).to_vector<float>(), y);
  EXPECT_EQ(test::error_of([] { Dropout(1.0); }), "invalid argument: dropout: rate 1");
}

TEST(Flatten, KeepsTheFirstDimension) {
  Flatten layer;
  EXPECT_EQ(text(layer(ones({2, 3, 4})).type()), "f32[2,12]");
  EXPECT_EQ(text(layer(ones({2})).type()), "f32[2,1]");
  EXPECT_EQ(test::error_of([&] { layer(scalar(1)); }), "invalid argument: flatten: cannot flatten f32[]");
}

TEST(Sequential, AnInputMakesTheWeightsAtOnce) {
  Sequential net({std::make_shared<Input>(Shape{28, 28}), std::make_shared<Flatten>(), std::make_shared<Dense>(128, "relu"),
                  std::make_shared<Dense>(10, "softmax")});
  EXPECT_EQ(net.count_params(), 784 * 128 + 128 + 1280 + 10);
  EXPECT_EQ(text(net(ones({3, 28, 28})).type()), "f32[3,10]");
  EXPECT_EQ(test::error_of([&] { net(ones({3, 28, 27})); }), "invalid argument: input: got f32[3,28,27]");
  std::vector<std::string> names;
  for (auto& layer : net.layers()) names.push_back(layer->name());
  EXPECT_EQ(names, (std::vector<std::string>{"input", "flatten", "dense", "dense_1"}));
}

TEST(Layer, WeightsThatAreNoFloatsAreRefused) {
  for (const DType dtype : {DType::i32, DType::boolean, DType::u8, DType::c64}) {
    try {
      Dense layer(2, {.dtype = dtype});
      ADD_FAILURE() << dtype;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::type);
      EXPECT_EQ(e.parts.what, cat("dense: weights of dtype ", dtype));
    }
  }
  EXPECT_EQ(Dense(2, {.dtype = DType::f64})(ones({1, 2})).dtype(), DType::f64);
}

}  // namespace
}  // namespace lamina::nn
