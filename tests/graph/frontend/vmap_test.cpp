// lm::vmap: eager, traced, nested, with gradients, with state.
#include "graph/frontend/vmap.h"

#include <gtest/gtest.h>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/nn/optimizer.h"

namespace lamina {
namespace {

using Floats = std::vector<float>;

Tensor numbers(const Shape& shape) {
  Floats values(size_t(size_of(shape).number()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i) * 0.25f - 1;
  return tensor(values, shape);
}

TEST(Vmap, EqualsALoopOverTheFirstAxis) {
  const Tensor xs = numbers({3, 4}), w = numbers({4});
  auto f = [&](Tensor x) { return sum(x * w) * 2; };
  const Tensor eager = vmap(f)(xs), traced = function(vmap(f))(xs);
  ASSERT_EQ(eager.shape(), Shape{3});
  for (int64_t i = 0; i < 3; ++i) {
    const float alone = f(gather(xs, i, 0)).item<float>();
    EXPECT_FLOAT_EQ(eager.to_vector<float>()[size_t(i)], alone);
    EXPECT_FLOAT_EQ(traced.to_vector<float>()[size_t(i)], alone);
  }
}

TEST(Vmap, TakesAnAxisPerArgumentAndResult) {
  auto f = [](Tensor x, Tensor y) { return std::pair(x + y, y * 2); };
  const auto [sums, doubled] = vmap(f, {.in_axes = {1, std::nullopt}, .out_axes = {-1, std::nullopt}})(numbers({2, 5}), numbers({2}));
  EXPECT_EQ(sums.shape(), (Shape{2, 5}));
  EXPECT_EQ(doubled.shape(), Shape{2});
  EXPECT_EQ(sums.to_vector<float>(), (numbers({2, 5}) + reshape(numbers({2}), {2, 1})).to_vector<float>());
}

TEST(Vmap, GivesGradientsPerExampleFromATapeInside) {
  Variable w(numbers({4}), "w");
  auto gradient = [&](Tensor x) {
    GradientTape tape;
    return tape.gradient(square(sum(x * w)), w)[0];
  };
  const Tensor xs = numbers({3, 4}), all = function(vmap(gradient))(xs);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(gather(all, i, 0).to_vector<float>(), gradient(gather(xs, i, 0)).to_vector<float>());
}

TEST(Vmap, IsDifferentiatedByATapeOutside) {
  const Tensor xs = numbers({3, 2}), c = numbers({2});
  GradientTape tape;
  tape.watch(xs);
  tape.watch(c);
  const Tensor total = sum(vmap([&](Tensor x) { return sum(x * x * c); })(xs));
  const auto gradients = tape.gradient(total, xs, c);
  EXPECT_EQ(gradients[0].to_vector<float>(), (xs * 2 * c).to_vector<float>());
  EXPECT_EQ(gradients[1].to_vector<float>(), sum(xs * xs, {0}).to_vector<float>());
}

TEST(Vmap, Nests) {
  const Tensor a = numbers({3}), b = numbers({2});
  auto row = [&](Tensor x) { return vmap([&](Tensor y) { return x * y; })(b); };
  EXPECT_EQ(vmap(row)(a).to_vector<float>(), (reshape(a, {3, 1}) * b).to_vector<float>());
}

TEST(Vmap, WritesAllModelsOfAStackedVariable) {
  const Variable total = per_model(numbers({3})), rates = per_model(numbers({3}));
  auto add = function(vmap(
      [&](Tensor x) {
        EXPECT_EQ(total.rank(), 0);
        total.assign_add(x * rates);
        return total.read();
      },
      {.in_axes = {std::nullopt}}));
  const Floats before = total.read().to_vector<float>();
  const Floats after = add(scalar(2.0f)).to_vector<float>();
  for (size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(after[i], before[i] * 3);
  EXPECT_EQ(total.read().to_vector<float>(), after);
  EXPECT_EQ(total.rank(), 1) << "outside it has its model axis";
}

TEST(Vmap, MakesStackedSlotsForStackedVariables) {
  const Variable w = per_model(numbers({3, 2}), "w");
  optim::SGD sgd(per_model(tensor(Floats{0.1f, 0.2f, 0.3f}, {3})), 0.9);
  auto step = function(vmap(
      [&](Tensor x) {
        GradientTape tape;
        tape.watch(w);
        const Tensor cost = sum(square(x * w));
        sgd.apply_gradients({tape.gradient(cost, w)[0]}, {w});
        return cost;
      },
      {.in_axes = {std::nullopt}}));
  step(numbers({2}));
  ASSERT_EQ(sgd.variables().size(), 2u);
  EXPECT_EQ(sgd.variables()[1].shape(), (Shape{3, 2}));
  EXPECT_EQ(sgd.variables()[1].models(), 3);
}

TEST(Vmap, AStackedGeneratorDrawsAsEachModelAlone) {
  const Variable generator = per_model(tensor(std::vector<int64_t>{5, 0, 6, 0}, {2, 2}), "generator");
  const Tensor all = vmap(
      [&] {
        random::GeneratorScope scope(generator);
        return uniform({4}) + uniform({4});
      },
      {.in_axes = {std::nullopt}})();
  for (int64_t i = 0; i < 2; ++i) {
    random::set_seed(5 + i);
    EXPECT_EQ(gather(all, i, 0).to_vector<float>(), (uniform({4}) + uniform({4})).to_vector<float>());
  }
}

TEST(Vmap, WorksForLengthsKnownOnlyLater) {
  auto f = function(vmap([](Tensor x) { return sum(x) + uniform({}) * 0; }), {TensorSpec{{any_length(), 2}}});
  EXPECT_EQ(f(numbers({3, 2})).shape(), Shape{3});
  EXPECT_EQ(f(numbers({5, 2})).shape(), Shape{5});
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(Vmap, PassesVariablesAsTheyAre) {
  Variable v(1.0f);
  const Tensor out = vmap([](Tensor x, Variable v) { return x * v; }, {.in_axes = {0, std::nullopt}})(numbers({3}), v);
  EXPECT_EQ(out.to_vector<float>(), numbers({3}).to_vector<float>());
}

std::string refused(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.parts.what;
  }
  return "nothing was thrown";
}

TEST(Vmap, RefusesWhatCannotBeMapped) {
  auto same = [](Tensor x) { return x; };
  EXPECT_EQ(refused([&] { vmap(same, {.in_axes = {2}})(numbers({3, 2})); }), "vmap: in axis 2 is out of range for argument 0, f32[3,2]");
  EXPECT_EQ(refused([&] { vmap(same)(Tensor(scalar(1.0f))); }), "vmap: in axis 0 is out of range for argument 0, f32[]");
  EXPECT_EQ(refused([&] { vmap(same, {.in_axes = {std::nullopt}})(numbers({3})); }), "vmap: nothing of vmap is mapped");
  EXPECT_EQ(refused([&] { vmap(same, {.in_axes = {0, 0}})(numbers({3})); }), "vmap: in_axes has 2 entries for 1");
  EXPECT_EQ(refused([&] { vmap(same, {.axis_size = 4})(numbers({3})); }),
            "vmap: axis 0 of argument 0, f32[3] has length 3, axis_size is 4");
  EXPECT_EQ(refused([&] { vmap(same, {.axis_size = -1})(numbers({3})); }), "vmap: axis_size -1");
  EXPECT_EQ(refused([&] { vmap([](Tensor a, Tensor b) { return a + b; })(numbers({3}), numbers({4})); }),
            "vmap: axis 0 of argument 1, f32[4] has length 4, axis 0 of argument 0, f32[3] has 3");
  const Variable three = per_model(numbers({3}), "three");
  EXPECT_EQ(refused([&] { vmap([&](Tensor x) { return x * three; })(numbers({4})); }),
            "vmap: the variable 'three' is stacked for 3 models, the call is about 4");
  EXPECT_EQ(refused([&] { vmap([&](Tensor) { return Tensor(); })(numbers({4})); }), "vmap: result 0 is an empty Tensor");
}

TEST(Vmap, LeavesNothingBehindAfterAnError) {
  const Variable three = per_model(numbers({3}), "three");
  EXPECT_THROW(vmap([&](Tensor) -> Tensor { throw std::runtime_error("no"); })(numbers({3})), std::runtime_error);
  EXPECT_EQ(three.rank(), 1);
  EXPECT_TRUE(executing_eagerly());
}

}  // namespace
}  // namespace lamina
