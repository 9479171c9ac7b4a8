#include "graph/nn/optimizer.h"

#include <gtest/gtest.h>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "tests/graph/nn/near.h"
#include "tests/kernels/cpu/known_program.h"

namespace lamina::optim {
namespace {

using test::Doubles;
using Rule = std::function<double(double value, double gradient, int step, Doubles& slots)>;

// Ten steps on f = sum(target * v^2 / 2), with gradient target * v, against the rule in double precision.
void expect_steps(Optimizer& optimizer, const Rule& rule, bool traced, DType dtype, double tolerance) {
  SCOPED_TRACE(cat(optimizer.name(), traced ? " traced " : " eager ", dtype));
  const Doubles start = test::draws(12, 21, -2, 2), target = test::draws(12, 22, 0.1, 3);
  const Variable v(test::tensor_of(start, {3, 4}, dtype), "v");
  const Tensor t = test::tensor_of(target, {3, 4}, dtype);
  const auto step = [&](Tensor t) {
    GradientTape tape;
    const Tensor cost = sum(0.5 * t * square(v));
    optimizer.apply_gradients(tape.gradient(cost, v), {v});
    return cost;
  };
  auto graph = function(step);
  Doubles wanted = start;
  std::vector<Doubles> slots(12, Doubles(3));
  for (int n = 1; n <= 10; ++n) {
    if (traced)
      graph(t);
    else
      step(t);
    for (size_t i = 0; i < 12; ++i) wanted[i] = rule(wanted[i], target[i] * wanted[i], n, slots[i]);
  }
  test::expect_near(v.read(), wanted, tolerance);
  if (traced) {
    EXPECT_EQ(graph.trace_count(), 1);  // slots made in the first trace do not cause another
  }
}

template <class Make>
void expect_rule(Make make, const Rule& rule) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (bool traced : {false, true})
      expect_steps(*make(), rule, traced, dtype, dtype == DType::f32 ? 2e-6 : 1e-7);  // the learning rate is f32
  }
}

TEST(SGD, FollowsItsFormulas) {
  expect_rule([] { return std::make_unique<SGD>(0.1); }, [](double v, double g, int, Doubles&) { return v - 0.1 * g; });
  expect_rule([] { return std::make_unique<SGD>(0.1, 0.9); },
              [](double v, double g, int, Doubles& s) { return v + (s[0] = 0.9 * s[0] - 0.1 * g); });
  expect_rule([] { return std::make_unique<SGD>(0.05, 0.9, true); },
              [](double v, double g, int, Doubles& s) {
                s[0] = 0.9 * s[0] - 0.05 * g;
                return v + 0.9 * s[0] - 0.05 * g;
              });
}

TEST(RMSprop, FollowsItsFormulas) {
  expect_rule([] { return std::make_unique<RMSprop>(); },
              [](double v, double g, int, Doubles& s) {
                s[0] = 0.9 * s[0] + 0.1 * g * g;
                return v - 0.001 * g / std::sqrt(s[0] + 1e-7);
              });
  expect_rule(
      [] { return std::make_unique<RMSprop>(0.01, RMSpropOptions{.rho = 0.8, .momentum = 0.5, .epsilon = 1e-3, .centered = true}); },
      [](double v, double g, int, Doubles& s) {
        s[0] = 0.8 * s[0] + 0.2 * g * g;
        s[1] = 0.8 * s[1] + 0.2 * g;
        s[2] = 0.5 * s[2] + 0.01 * g / std::sqrt(s[0] - s[1] * s[1] + 1e-3);
        return v - s[2];
      });
}

double adam(double v, double g, int n, Doubles& s, double rate) {
  s[0] += (g - s[0]) * 0.1;
  s[1] += (g * g - s[1]) * 0.001;
  return v - s[0] * rate * std::sqrt(1 - std::pow(0.999, n)) / (1 - std::pow(0.9, n)) / (std::sqrt(s[1]) + 1e-7);
}

TEST(Adam, FollowsItsFormula) {
  expect_rule([] { return std::make_unique<Adam>(); }, [](double v, double g, int n, Doubles& s) { return adam(v, g, n, s, 0.001); });
  expect_rule([] { return std::make_unique<AdamW>(0.01); },
              [](double v, double g, int n, Doubles& s) { return adam(v - v * 0.004 * 0.01, g, n, s, 0.01); });
}

TEST(Adagrad, FollowsItsFormula) {
  expect_rule([] { return std::make_unique<Adagrad>(0.1); },
              [](double v, double g, int n, Doubles& s) {
                s[0] = (n == 1 ? 0.1 : s[0]) + g * g;
                return v - 0.1 * g / std::sqrt(s[0] + 1e-7);
              });
}

TEST(Nadam, FollowsItsFormula) {
  expect_rule([] { return std::make_unique<Nadam>(0.01); },
              [](double v, double g, int n, Doubles& s) {
                const double now = 0.9 * (1 - 0.5 * std::pow(0.96, n)), next = 0.9 * (1 - 0.5 * std::pow(0.96, n + 1));
                s[0] += (g - s[0]) * 0.1;
                s[1] += (g * g - s[1]) * 0.001;
                s[2] = (n == 1 ? 1 : s[2]) * now;
                const double m = next * s[0] / (1 - s[2] * next) + (1 - now) * g / (1 - s[2]);
                return v - 0.01 * m / (std::sqrt(s[1] / (1 - std::pow(0.999, n))) + 1e-7);
              });
}

TEST(Lion, FollowsItsFormula) {
  expect_rule([] { return std::make_unique<Lion>(0.01, LionOptions{.weight_decay = 0.1}); },
              [](double v, double g, int, Doubles& s) {
                const double move = 0.9 * s[0] + 0.1 * g > 0 ? 1 : -1;
                s[0] = 0.99 * s[0] + 0.01 * g;
                return v - 0.01 * 0.1 * v - 0.01 * move;
              });
}

TEST(Schedule, GivesTheRateOfEachStep) {
  const double pi = std::acos(-1.0);
  expect_rule([&] { return std::make_unique<SGD>(schedules::Warmup(schedules::CosineDecay(0.1, 20), 3)); },
              [&](double v, double g, int n, Doubles&) {
                const int t = n - 1;
                return v - g * (t < 3 ? 0.1 * t / 3 : 0.1 * 0.5 * (1 + std::cos(pi * (t - 3) / 20)));
              });
  SGD sgd(schedules::ExponentialDecay(1, 1, 0.5));
  const Variable v(zeros({2}));
  sgd.apply_gradients({{ones({2}), v}});
  EXPECT_EQ(sgd.current_learning_rate().item<float>(), 0.5f);
  EXPECT_EQ(test::error_of([&] { sgd.set_learning_rate(1); }), "wrong state: sgd: the learning rate is a schedule (ExponentialDecay)");
  EXPECT_EQ(test::error_of([] { schedules::CosineDecay(0.1, 0); }), "invalid argument: CosineDecay: decay_steps 0");
}

TEST(Optimizer, AccumulatesGradients) {
  SGD sgd(1.0, 0, false, {.gradient_accumulation_steps = 2});
  const Variable v(scalar(0));
  auto step = function([&](Tensor g) {
    sgd.apply_gradients({{g, v}});
    return v.read();
  });
  EXPECT_EQ(step(scalar(2)).item<float>(), 0);
  EXPECT_EQ(step(scalar(4)).item<float>(), -3);
  EXPECT_EQ(step(scalar(8)).item<float>(), -3);
}

TEST(Adam, CountsItsSteps) {
  Adam adam;
  const Variable v(ones({2}));
  for (int i = 0; i < 3; ++i) adam.apply_gradients({{ones({2}), v}});
  EXPECT_EQ(adam.iterations().read().item<int64_t>(), 3);
}

// Adam's first step equals the learning rate, whatever the gradient; single-precision bias corrections would miss it by 3e-5.
TEST(Adam, TheFirstStepIsExact) {
  Adam adam(1.0, {.epsilon = 0});
  const Variable v(zeros({3}));
  adam.apply_gradients({{tensor({1e-12, 3, -2e6}, {3}), v}});
  test::expect_near(v.read(), {-1, -1, 1}, 1e-6);
}

TEST(Optimizer, AssigningTheLearningRateDoesNotRetrace) {
  SGD sgd(0.5);
  const Variable v(scalar(8));
  auto step = function([&](Tensor g) {
    sgd.apply_gradients({{g, v}});
    return v.read();
  });
  EXPECT_EQ(step(scalar(2)).item<float>(), 7);
  sgd.set_learning_rate(2);
  EXPECT_EQ(step(scalar(2)).item<float>(), 3);
  sgd.learning_rate().assign(0.25);
  EXPECT_EQ(step(scalar(2)).item<float>(), 2.5);
  EXPECT_EQ(step.trace_count(), 1);
}

TEST(Optimizer, SeveralWorkSideBySide) {
  const Variable p(1.0), q(1.0);
  SGD slow(0.1), fast(0.5);
  GradientTape tape({.persistent = true});
  const Tensor cost = p * p + q * q;
  slow.apply_gradients({{tape.gradient(cost, p)[0], p}});
  fast.apply_gradients({{tape.gradient(cost, q)[0], q}});
  EXPECT_NEAR(p.read().item<double>(), 0.8, 1e-6);
  EXPECT_EQ(q.read().item<double>(), 0);
}

TEST(Optimizer, RefusesAVariableItWasNotBuiltFor) {
  const Variable p(ones({2}), "p"), q(ones({2}), "q");
  SGD sgd(0.1);
  sgd.apply_gradients({{ones({2}), p}});
  EXPECT_EQ(test::error_of([&] { sgd.apply_gradients({{ones({2}), q}}); }),
            "invalid argument: sgd: this optimizer does not know the variable 'q'");
  EXPECT_EQ(test::error_of([&] { sgd.build({p, q}); }), "wrong state: sgd: this optimizer was built for other variables");
  EXPECT_EQ(q.read().to_vector<float>(), (std::vector<float>{1, 1}));
  sgd.build({p});
}

TEST(Optimizer, RefusesGradientsThatDoNotFit) {
  const Variable p(ones({2}), "p"), n(tensor(std::vector<int32_t>{1}), "n");
  SGD sgd(0.1), other(0.1);
  EXPECT_EQ(test::error_of([&] { sgd.apply_gradients({{Tensor(), p}}); }), "invalid argument: sgd: there are no gradients");
  EXPECT_EQ(test::error_of([&] { sgd.apply_gradients({{ones({3}), p}}); }), "invalid argument: sgd: the gradient of 'p' is f32[3]");
  EXPECT_EQ(test::error_of([&] { sgd.apply_gradients({ones({2})}, {p, p}); }), "invalid argument: sgd: 1 gradients for 2 variables");
  EXPECT_EQ(test::error_of([&] { other.build({n}); }), "type mismatch: sgd: cannot train 'n', which is i32[1]");
}

TEST(Optimizer, SkipsVariablesWithoutAGradient) {
  const Variable p(ones({2}), "p"), q(ones({2}), "q");
  Adam adam(0.1);
  adam.apply_gradients({{ones({2}), p}, {Tensor(), q}});
  EXPECT_EQ(q.read().to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_LT(p.read().to_vector<float>()[0], 1);
  adam.apply_gradients({{Tensor(), p}, {ones({2}), q}});
  EXPECT_LT(q.read().to_vector<float>()[0], 1);
}

TEST(Optimizer, ListsItsState) {
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> out;
    for (auto& v : optimizer.variables()) out.push_back(v.name());
    return out;
  };
  const Variable w(ones({2}), "w");
  Adam adam;
  adam.build({w});
  EXPECT_EQ(names(adam), (std::vector<std::string>{"adam/learning_rate", "adam/iterations", "adam/w/momentum", "adam/w/velocity"}));
  SGD sgd;
  sgd.build({w});
  EXPECT_EQ(names(sgd), std::vector<std::string>{"sgd/learning_rate"});
}

// A changed formula would run several times slower, with no other sign.
TEST(Optimizers, UpdatesOfLayersAreKnownPrograms) {
  std::map<std::string, std::pair<std::unique_ptr<Optimizer>, Doubles>> all;
  all["momentum"] = {std::make_unique<SGD>(0.1, 0.75), Doubles{0.75}};
  all["Nesterov momentum"] = {std::make_unique<SGD>(0.1, 0.75, true), Doubles{0.75}};
  all["Adam"] = {std::make_unique<Adam>(0.1), Doubles{0.1, 0.001, 1e-7}};
  all["AdamW"] = {std::make_unique<AdamW>(0.1), Doubles{0.1, 0.001, 1e-7}};
  all["Nadam"] = {std::make_unique<Nadam>(0.1), Doubles{0.1, 0.001, 1e-7}};
  all["RMSprop"] = {std::make_unique<RMSprop>(0.1), Doubles{0.1, 0.9, 1e-7}};
  all["Adagrad"] = {std::make_unique<Adagrad>(0.1), Doubles{1e-7}};
  all["Lion"] = {std::make_unique<Lion>(0.1), Doubles{0.1, 0.01}};
  for (const kernels::KnownCode& known : kernels::known::kCodes) {
    ASSERT_TRUE(all.contains(known.name)) << known.name;
    const auto& [optimizer, constants] = all[known.name];
    const Variable w(test::tensor_of(test::draws(12, 21, -2, 2), {3, 4}, DType::f32), "w");
    const Tensor x = test::tensor_of(test::draws(6, 22, -2, 2), {2, 3}, DType::f32);
    auto step = function([&](Tensor x) {
      GradientTape tape;
      const Tensor cost = sum(square(matmul(x, w)));
      optimizer->apply_gradients(tape.gradient(cost, w), {w});
      return cost;
    });
    step(x);
    EXPECT_NE(step.explain(x).find(kernels::print(kernels::code_of(known, constants)) + "\n"), std::string::npos) << step.explain(x);
  }
}

}  // namespace
}  // namespace lamina::optim
