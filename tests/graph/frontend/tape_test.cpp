#include "graph/frontend/tape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"

namespace lamina {
namespace {

// f(x) eagerly and as a traced function must give the same numbers.
std::vector<float> values_both_ways(const std::function<Tensor(Tensor)>& f, const Tensor& x) {
  const std::vector<float> eager = f(x).to_vector<float>(), traced = function(f)(x).to_vector<float>();
  EXPECT_EQ(eager.size(), traced.size());
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], traced[i], 1e-6 * std::abs(eager[i])) << i;
  return eager;
}
using Floats = std::vector<float>;

TEST(GradientTape, DifferentiatesAWatchedTensor) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape tape;
                  tape.watch(x);
                  return tape.gradient(sum(x * x * x), x)[0];
                },
                tensor({1, 2, -3}, {3})),
            (Floats{3, 12, 27}));
}

TEST(GradientTape, TrainableVariablesAreWatchedWhenRead) {
  Variable w(scalar(3)), fixed(scalar(2), "fixed", false);
  EXPECT_EQ(values_both_ways(
                [&](Tensor x) {
                  GradientTape tape;
                  Tensor y = w * x + w * w * fixed;
                  auto g = tape.gradient(y, w, fixed);
                  EXPECT_FALSE(g[1].defined());
                  return g[0];
                },
                scalar(5)),
            (Floats{5 + 2 * 3 * 2}))
      << "the sum over all reads";
}

TEST(GradientTape, AVariableThatIsNotTrainableCanBeWatched) {
  Variable fixed(scalar(2), "fixed", false);
  EXPECT_EQ(values_both_ways(
                [&](Tensor x) {
                  GradientTape tape;
                  tape.watch(fixed);
                  return tape.gradient(fixed * x, fixed)[0];
                },
                scalar(5)),
            Floats{5});
}

TEST(GradientTape, WhatIsNotConnectedHasNoGradient) {
  Variable w(scalar(3)), unused(scalar(1));
  for (bool traced : {false, true}) {
    auto f = [&](Tensor x) {
      GradientTape tape;
      Tensor before = x * 2;
      tape.watch(x);
      Tensor y = x * w;
      auto g = tape.gradient(y, unused, before, w);
      EXPECT_FALSE(g[0].defined());
      EXPECT_FALSE(g[1].defined()) << "computed before the tape watched x";
      return g[2];
    };
    EXPECT_EQ((traced ? function(f)(scalar(2)) : f(scalar(2))).item<float>(), 2);
  }
}

TEST(GradientTape, AnUnwatchedTensorHasNoGradient) {
  for (bool traced : {false, true}) {
    auto f = [&](Tensor x) {
      GradientTape tape;
      EXPECT_FALSE(tape.gradient(x * x, x)[0].defined());
      return x;
    };
    traced ? function(f)(scalar(2)) : f(scalar(2));
  }
}

TEST(GradientTape, SeveralTargetsAreSummed) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape tape;
                  tape.watch(x);
                  const Tensor targets[] = {x * 2, x * x};
                  const Source source(x);
                  return tape.gradient(targets, std::span(&source, 1))[0];
                },
                scalar(5)),
            Floats{12});
}

TEST(GradientTape, OutputGradientsWeighTheTarget) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape tape;
                  tape.watch(x);
                  const Tensor y = x * x, weight = tensor({1, 0, 10}, {3});
                  const Source source(x);
                  return tape.gradient(std::span(&y, 1), std::span(&source, 1), std::span(&weight, 1))[0];
                },
                tensor({1, 2, 3}, {3})),
            (Floats{2, 0, 60}));
}

TEST(GradientTape, IntermediateValuesCanBeSources) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape tape;
                  tape.watch(x);
                  Tensor h = x * 3, y = h * h;
                  return tape.gradient(y, h)[0];
                },
                scalar(2)),
            Floats{12});
}

TEST(GradientTape, NestedTapesGiveSecondDerivatives) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape outer;
                  outer.watch(x);
                  GradientTape inner;
                  inner.watch(x);
                  Tensor y = x * x * x;
                  Tensor first = inner.gradient(y, x)[0];
                  return outer.gradient(first, x)[0];
                },
                tensor({2, -1}, {2})),
            (Floats{12, -6}));
}

TEST(GradientTape, ThirdDerivativesWork) {
  auto f = [](Tensor x) { return x * x * x * x; };
  auto third = [&](Tensor x) { return grad([&](Tensor a) { return grad([&](Tensor b) { return grad(f)(b); })(a); })(x); };
  EXPECT_EQ(values_both_ways(third, scalar(2)), Floats{48});
}

TEST(GradientTape, SecondDerivativesOfVariables) {
  Variable w(scalar(3));
  EXPECT_EQ(values_both_ways(
                [&](Tensor x) {
                  GradientTape outer;
                  GradientTape inner;
                  Tensor y = w * w * w * x;
                  Tensor first = inner.gradient(y, w)[0];
                  return outer.gradient(first, w)[0];
                },
                scalar(2)),
            Floats{36});
}

TEST(GradientTape, ASingleUseTapeIsUsedOnce) {
  for (bool traced : {false, true}) {
    auto f = [](Tensor x) {
      GradientTape tape;
      tape.watch(x);
      Tensor y = x * x;
      tape.gradient(y, x);
      try {
        tape.gradient(y, x);
        ADD_FAILURE();
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::state);
        EXPECT_NE(std::string(e.what()).find("persistent"), std::string::npos);
      }
      return y;
    };
    traced ? function(f)(scalar(2)) : f(scalar(2));
  }
}

TEST(GradientTape, APersistentTapeIsUsedOften) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape tape({.persistent = true});
                  tape.watch(x);
                  Tensor y = x * x, z = y * y;
                  Tensor a = tape.gradient(y, x)[0], b = tape.gradient(z, x)[0];
                  Tensor again = tape.gradient(z * x, x)[0];
                  return a + b + again;
                },
                scalar(2)),
            Floats{4 + 32 + 80});
}

TEST(GradientTape, NothingIsRecordedWhileStopped) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape tape;
                  tape.watch(x);
                  Tensor a = x * x, b;
                  {
                    auto pause = tape.stop_recording();
                    b = x * x * x;
                  }
                  return tape.gradient(a + b, x)[0];
                },
                scalar(3)),
            Floats{6});
}

TEST(GradientTape, StopGradientBlocks) {
  EXPECT_EQ(values_both_ways(
                [](Tensor x) {
                  GradientTape tape;
                  tape.watch(x);
                  return tape.gradient(x * stop_gradient(x * x), x)[0];
                },
                scalar(3)),
            Floats{9});
}

TEST(GradientTape, DifferentiatesThroughACalledFunction) {
  Variable w(tensor({2, 3}, {2}));
  auto model = function([&](Tensor x) { return sum(x * w * w); });
  EXPECT_EQ(values_both_ways(
                [&](Tensor x) {
                  GradientTape tape;
                  tape.watch(x);
                  Tensor y = model(x);
                  auto g = tape.gradient(y, w, x);
                  return concat({g[0], g[1]});
                },
                tensor({1, 10}, {2})),
            (Floats{4, 60, 4, 9}));
  EXPECT_EQ(model.trace_count(), 1);
}

TEST(GradientTape, AVariableArgumentOfACalledFunctionIsDifferentiated) {
  Variable w(scalar(4));
  auto model = function([](Tensor x, Variable v) { return x * v * v; });
  EXPECT_EQ(values_both_ways(
                [&](Tensor x) {
                  GradientTape tape;
                  Tensor y = model(x, w);
                  return tape.gradient(y, w)[0];
                },
                scalar(3)),
            Floats{24});
}

TEST(GradientTape, AFunctionsStateChangesOnceUnderATape) {
  Variable w(scalar(1)), count(scalar_i(0));
  auto model = function([&](Tensor x) {
    count.assign_add(1);
    return x * w;
  });
  GradientTape tape;
  Tensor y = model(scalar(3));
  EXPECT_EQ(tape.gradient(y, w)[0].item<float>(), 3);
  EXPECT_EQ(count.read().item<int>(), 1);
}

TEST(GradientTape, ATapeBelongsToTheTraceThatStartedIt) {
  GradientTape tape;
  auto f = function([&](Tensor x) {
    EXPECT_THROW(tape.watch(x), Error);
    EXPECT_THROW(tape.gradient(x, x), Error);
    return x;
  });
  f(scalar(1));
}

TEST(GradientTape, RefusesIntegers) {
  GradientTape tape;
  EXPECT_THROW(tape.watch(scalar_i(1)), Error);
  EXPECT_THROW(tape.gradient(scalar_i(1), scalar(1)), Error);
}

TEST(GradientTape, FreesItsTensors) {
  const Tensor x = ones({3});
  std::weak_ptr<Buffer> held;
  {
    GradientTape tape;
    tape.watch(x);
    Tensor h = x * 2;
    held = h.buffer();
    Tensor y = h * h;
    h = Tensor();
    EXPECT_FALSE(held.expired()) << "needed for the gradient";
    tape.gradient(y, x);
    EXPECT_TRUE(held.expired());
  }
}

TEST(GradientTape, ATrainingStepIsOneGraph) {
  Variable w(scalar(0)), b(scalar(0));
  auto step = [&](Tensor x, Tensor y) {
    GradientTape tape;
    Tensor e = x * w + b - y, cost = mean(e * e);
    auto g = tape.gradient(cost, std::vector<Variable>{w, b});
    w.assign(w.read() - g[0] * 0.1f);
    b.assign(b.read() - g[1] * 0.1f);
    return cost;
  };
  auto traced = function(step);
  const Tensor x = tensor({-1, 0, 1, 2}, {4}), y = tensor({-2, 1, 4, 7}, {4});
  std::vector<float> eager;
  for (int i = 0; i < 20; ++i) eager.push_back(step(x, y).item<float>());
  w.assign(0);
  b.assign(0);
  for (int i = 0; i < 20; ++i) EXPECT_NEAR(traced(x, y).item<float>(), eager[size_t(i)], 1e-5 * eager[size_t(i)]) << i;
  for (int i = 0; i < 200; ++i) traced(x, y);
  EXPECT_NEAR(w.read().item<float>(), 3, 1e-3);
  EXPECT_NEAR(b.read().item<float>(), 1, 1e-3);
  EXPECT_EQ(traced.trace_count(), 1);
}

// u = tanh(a x) has u' = a (1 - u^2), u'' = -2 a u u', u''' = -2 a (u'^2 + u u'').
TEST(GradientTape, ThreeNestedTapesGiveThirdDerivatives) {
  const double a = 0.7;
  const std::vector<float> x{-1.5f, -0.2f, 0.4f, 2};
  auto derivatives = [&](Tensor t) {
    GradientTape outer;
    outer.watch(t);
    GradientTape middle;
    middle.watch(t);
    GradientTape inner;
    inner.watch(t);
    const Tensor u = tanh(t * a), first = inner.gradient(u, t)[0], second = middle.gradient(first, t)[0];
    return concat({u, first, second, outer.gradient(second, t)[0]});
  };
  const std::vector<float> eager = derivatives(tensor(x)).to_vector<float>(), traced = function(derivatives)(tensor(x)).to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const double u = std::tanh(a * x[i]), u1 = a * (1 - u * u), u2 = -2 * a * u * u1, u3 = -2 * a * (u1 * u1 + u * u2);
    for (const auto& got : {eager, traced}) {
      EXPECT_NEAR(got[i], u, 1e-6);
      EXPECT_NEAR(got[i + 4], u1, 1e-6);
      EXPECT_NEAR(got[i + 8], u2, 1e-6);
      EXPECT_NEAR(got[i + 12], u3, 3e-6);
    }
  }
}

// A training step of a physics-informed network: its cost has the network's second derivative with respect to its input, and is
// differentiated with respect to the weights. All three derivatives are one section.
TEST(GradientTape, TrainingOnASecondDerivativeIsOneSection) {
  std::vector<Variable> weights;
  for (size_t layer = 0; layer < 3; ++layer) {
    const int64_t in = layer == 0 ? 1 : 8, out = layer == 2 ? 1 : 8;
    std::vector<float> w(size_t(in * out));
    for (size_t i = 0; i < w.size(); ++i) w[i] = float(std::sin(double(i * 7 + layer))) * 0.6f;
    weights.emplace_back(tensor(w, {in, out}));
    weights.emplace_back(tensor(std::vector<float>(size_t(out), 0.1f)));
  }
  auto cost_of = [&](const Tensor& x) {
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    Tensor u = x;
    for (size_t i = 0; i < weights.size(); i += 2) {
      u = matmul(u, weights[i]) + weights[i + 1];
      if (i + 2 < weights.size()) u = tanh(u);
    }
    const Tensor first = inner.gradient(u, x)[0], second = outer.gradient(first, x)[0];
    return mean(square(second + u)) + mean(square(first - 1.0));
  };
  auto slopes = [&](Tensor x) {
    GradientTape tape;
    const Tensor cost = cost_of(x);
    std::vector<Tensor> parts;
    for (const Tensor& g : tape.gradient(cost, weights)) parts.push_back(flatten(g));
    return concat(parts);
  };
  const Tensor x = tensor({0, 0.5, 1, 1.5, 2, 2.5}, {6, 1});
  const std::vector<float> eager = slopes(x).to_vector<float>(), got = function(slopes)(x).to_vector<float>();
  ASSERT_EQ(got.size(), eager.size());
  float largest = 0;
  for (float g : eager) largest = std::max(largest, std::abs(g));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], eager[i], 2e-5 * largest) << i;
  // Against differences of the cost.
  const Variable& w = weights[2];
  const std::vector<float> kept = w.read().to_vector<float>();
  for (size_t i : {0, 13, 63}) {
    float slope = 0;
    for (float sign : {1.f, -1.f}) {
      std::vector<float> moved = kept;
      moved[i] += sign * 1e-2f;
      w.assign(tensor(moved, {8, 8}));
      slope += sign * cost_of(x).item<float>() / 2e-2f;
    }
    w.assign(tensor(kept, {8, 8}));
    EXPECT_NEAR(got[8 + 8 + i], slope, 1e-2 * largest) << i;
  }
  auto update = function([&](Tensor t) {
    GradientTape tape;
    const Tensor cost = cost_of(t);
    const auto gradients = tape.gradient(cost, weights);
    for (size_t i = 0; i < weights.size(); ++i) weights[i].assign_sub(gradients[i] * 0.01);
    return cost;
  });
  const float before = update(x).item<float>();
  for (int i = 0; i < 50; ++i) update(x);
  EXPECT_LT(update(x).item<float>(), before);
  EXPECT_EQ(update.concrete(x).instructions().size(), 1u) << update.explain(x);
}

TEST(Grad, IsByEachPlaceOfATensorThatStandsInTwo) {
  const auto both = [](const Tensor& x) { return value_and_grad([&x](Tensor a, Tensor b) { return sum(a * a * b * x); })(x, x).second; };
  const Tensor x = tensor({1, 2, 3}, {3});
  EXPECT_EQ(values_both_ways([&](Tensor x) { return both(x)[0]; }, x), (Floats{2, 16, 54}));
  EXPECT_EQ(values_both_ways([&](Tensor x) { return both(x)[1]; }, x), (Floats{1, 8, 27}));
  EXPECT_FALSE(x.alias().same(x));
  EXPECT_EQ(x.alias().buffer(), x.buffer());
}
TEST(GradientTape, JacobianComputesAllRowsTogether) {
  const auto slope = [](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = reshape(x * x * sum(x), {1, 2});
    return tape.jacobian(y, std::array<Source, 1>{x})[0];
  };
  EXPECT_EQ(values_both_ways(slope, tensor({1, 2}, {2})), (Floats{7, 1, 4, 16}));
  EXPECT_EQ(slope(tensor({1, 2}, {2})).shape(), (Shape{1, 2, 2}));
}
TEST(Grad, ReturnsFunctions) {
  auto f = [](Tensor x, Tensor y) { return x * x * y; };
  EXPECT_EQ(grad(f)(scalar(3), scalar(4))[1].item<float>(), 9);
  auto [value, gradients] = value_and_grad(f)(scalar(3), scalar(4));
  EXPECT_EQ(value.item<float>(), 36);
  EXPECT_EQ(gradients[0].item<float>(), 24);
}

}  // namespace
}  // namespace lamina
