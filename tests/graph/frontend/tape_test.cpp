#include "graph/frontend/tape.h"

#include <gtest/gtest.h>

#include "graph/frontend/op_functions.h"
#include "graph/frontend/typed_function.h"

namespace lamina {
namespace {

// f(x) eagerly and as a traced function must give the same numbers.
std::vector<float> both(const std::function<Tensor(Tensor)>& f, const Tensor& x) {
  const std::vector<float> eager = f(x).to_vector<float>(), traced = function(f)(x).to_vector<float>();
  EXPECT_EQ(eager.size(), traced.size());
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], traced[i], 1e-6 * std::abs(eager[i])) << i;
  return eager;
}
using Floats = std::vector<float>;

TEST(GradientTape, DifferentiatesAWatchedTensor) {
  EXPECT_EQ(both([](Tensor x) {
              GradientTape tape;
              tape.watch(x);
              return tape.gradient(sum(x * x * x), x)[0];
            }, tensor({1, 2, -3}, {3})),
            (Floats{3, 12, 27}));
}

TEST(GradientTape, TrainableVariablesAreWatchedWhenRead) {
  Variable w(scalar(3)), fixed(scalar(2), "fixed", false);
  EXPECT_EQ(both([&](Tensor x) {
              GradientTape tape;
              Tensor y = w * x + w * w * fixed;
              auto g = tape.gradient(y, w, fixed);
              EXPECT_FALSE(g[1].defined());
              return g[0];
            }, scalar(5)),
            (Floats{5 + 2 * 3 * 2}))
      << "the sum over all reads";
}

TEST(GradientTape, AVariableThatIsNotTrainableCanBeWatched) {
  Variable fixed(scalar(2), "fixed", false);
  EXPECT_EQ(both([&](Tensor x) {
              GradientTape tape;
              tape.watch(fixed);
              return tape.gradient(fixed * x, fixed)[0];
            }, scalar(5)),
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
  EXPECT_EQ(both([](Tensor x) {
              GradientTape tape;
              tape.watch(x);
              const Tensor targets[] = {x * 2, x * x};
              const Source source(x);
              return tape.gradient(targets, std::span(&source, 1))[0];
            }, scalar(5)),
            Floats{12});
}

TEST(GradientTape, OutputGradientsWeighTheTarget) {
  EXPECT_EQ(both([](Tensor x) {
              GradientTape tape;
              tape.watch(x);
              const Tensor y = x * x, weight = tensor({1, 0, 10}, {3});
              const Source source(x);
              return tape.gradient(std::span(&y, 1), std::span(&source, 1), std::span(&weight, 1))[0];
            }, tensor({1, 2, 3}, {3})),
            (Floats{2, 0, 60}));
}

TEST(GradientTape, IntermediateValuesCanBeSources) {
  EXPECT_EQ(both([](Tensor x) {
              GradientTape tape;
              tape.watch(x);
              Tensor h = x * 3, y = h * h;
              return tape.gradient(y, h)[0];
            }, scalar(2)),
            Floats{12});
}

TEST(GradientTape, NestedTapesGiveSecondDerivatives) {
  EXPECT_EQ(both([](Tensor x) {
              GradientTape outer;
              outer.watch(x);
              GradientTape inner;
              inner.watch(x);
              Tensor y = x * x * x;
              Tensor first = inner.gradient(y, x)[0];
              return outer.gradient(first, x)[0];
            }, tensor({2, -1}, {2})),
            (Floats{12, -6}));
}

TEST(GradientTape, ThirdDerivativesWork) {
  auto f = [](Tensor x) { return x * x * x * x; };
  auto third = [&](Tensor x) { return grad([&](Tensor a) { return grad([&](Tensor b) { return grad(f)(b); })(a); })(x); };
  EXPECT_EQ(both(third, scalar(2)), Floats{48});
}

TEST(GradientTape, SecondDerivativesOfVariables) {
  Variable w(scalar(3));
  EXPECT_EQ(both([&](Tensor x) {
              GradientTape outer;
              GradientTape inner;
              Tensor y = w * w * w * x;
              Tensor first = inner.gradient(y, w)[0];
              return outer.gradient(first, w)[0];
            }, scalar(2)),
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
  EXPECT_EQ(both([](Tensor x) {
              GradientTape tape({.persistent = true});
              tape.watch(x);
              Tensor y = x * x, z = y * y;
              Tensor a = tape.gradient(y, x)[0], b = tape.gradient(z, x)[0];
              Tensor again = tape.gradient(z * x, x)[0];
              return a + b + again;
            }, scalar(2)),
            Floats{4 + 32 + 80});
}

TEST(GradientTape, NothingIsRecordedWhileStopped) {
  EXPECT_EQ(both([](Tensor x) {
              GradientTape tape;
              tape.watch(x);
              Tensor a = x * x, b;
              {
                auto pause = tape.stop_recording();
                b = x * x * x;
              }
              return tape.gradient(a + b, x)[0];
            }, scalar(3)),
            Floats{6});
}

TEST(GradientTape, StopGradientBlocks) {
  EXPECT_EQ(both([](Tensor x) {
              GradientTape tape;
              tape.watch(x);
              return tape.gradient(x * stop_gradient(x * x), x)[0];
            }, scalar(3)),
            Floats{9});
}

TEST(GradientTape, SeesThroughACalledFunction) {
  Variable w(tensor({2, 3}, {2}));
  auto model = function([&](Tensor x) { return sum(x * w * w); });
  EXPECT_EQ(both([&](Tensor x) {
              GradientTape tape;
              tape.watch(x);
              Tensor y = model(x);
              auto g = tape.gradient(y, w, x);
              return concat({g[0], g[1]});
            }, tensor({1, 10}, {2})),
            (Floats{4, 60, 4, 9}));
  EXPECT_EQ(model.trace_count(), 1);
}

TEST(GradientTape, AVariableArgumentOfACalledFunctionIsDifferentiated) {
  Variable w(scalar(4));
  auto model = function([](Tensor x, Variable v) { return x * v * v; });
  EXPECT_EQ(both([&](Tensor x) {
              GradientTape tape;
              Tensor y = model(x, w);
              return tape.gradient(y, w)[0];
            }, scalar(3)),
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

TEST(GradientTape, GradientsAreTakenWhereTheTapeWasStarted) {
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

TEST(GradientTape, ForgetsWhatItHeld) {
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

TEST(Grad, ReturnsFunctions) {
  auto f = [](Tensor x, Tensor y) { return x * x * y; };
  EXPECT_EQ(grad(f)(scalar(3), scalar(4))[1].item<float>(), 9);
  auto [value, gradients] = value_and_grad(f)(scalar(3), scalar(4));
  EXPECT_EQ(value.item<float>(), 36);
  EXPECT_EQ(gradients[0].item<float>(), 24);
}

}  // namespace
}  // namespace lamina
