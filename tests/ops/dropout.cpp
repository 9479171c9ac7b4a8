#include <gtest/gtest.h>

#include <set>

#include "graph/ops/ops.h"
#include "kernels/shared/philox.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

// x's leading axes match the state's axes before its last one.
Reference dropout_of(float rate) {
  return [rate](const std::vector<Tensor>& in) {
    const int64_t models = in[1].size() / 2, n = models ? in[0].size() / models : 0;
    std::vector<double> y;
    for (int64_t m = 0; m < models; ++m)
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t word = philox::draw(in[1].data<int64_t>()[2 * m], in[1].data<int64_t>()[2 * m + 1], i / 4).word[i % 4];
        y.push_back(word < philox::drop_below(rate) ? 0 : in[0].at(m * n + i) / (1 - double(rate)));
      }
    return std::vector<std::vector<double>>{y};
  };
}

const OpCases cases{"dropout", [] {
                      std::vector<OpCase> out;
                      auto add = [&](Shape x, Shape state, float rate, const std::vector<DType>& dtypes) {
                        out.push_back({.name = cat("[", text(x), "] state [", text(state), "] rate ", rate),
                                       .in = {{f32(x)}, {i64(state), 0, 0, {17, 3, -5, 8}}},
                                       .attrs = ir::make_attrs(ops::DropoutAttrs{rate})});
                        out.back().reference = dropout_of(rate);
                        out.back().dtypes = dtypes;
                        out.back().ulps = 1.01;
                        out.back().no_loop = "with one state for all, models see different draws; DropoutOfModels has its cases";
                      };
                      for (float rate : {0.0f, 0.2f, 0.9f}) add({20, 64}, {2}, rate, kFloating);
                      add({7}, {2}, 0.5f, kFloating);
                      add({2, 3, 5}, {2}, 0.5f, kFloating);
                      add({4, 3, 5}, {4, 2}, 0.5f, kFloating);
                      add({2, 3, 5}, {2, 3, 2}, 0.5f, {DType::f32});
                      add({}, {2}, 0.5f, {DType::f32});
                      add({0, 5}, {2}, 0.5f, {DType::f32});
                      add({0, 5}, {0, 2}, 0.5f, {DType::f32});
                      for (OpCase& c : out)
                        if (size_of(c.in[0].type.shape).number() > 1000) c.no_differences = "the smaller cases show it";
                      return out;
                    }};

Tensor run(const ir::Graph& g, const std::vector<Tensor>& in) { return evaluate(g, in)[0]; }

// Each model of `stacked` alone, with its own state.
void expect_models_draw_alone(const Tensor& x, bool x_batched, const Tensor& states) {
  constexpr float rate = 0.5f;
  ir::Graph g;
  const std::vector<ir::Batched> in{{g.add_input(x.type), x_batched}, {g.add_input(states.type), true}};
  g.outputs = {ops::def::dropout.batch({g, *ir::make_attrs(ops::DropoutAttrs{rate}), in, states.type.shape[0], {}})[0].value};
  const Tensor got = run(g, {x, states});
  const Shape inner = x_batched ? Shape(x.type.shape.begin() + 1, x.type.shape.end()) : x.type.shape;
  const int64_t n = size_of(inner).number();
  for (int64_t m = 0; m < states.type.shape[0].number(); ++m) {
    ir::Graph one;
    const ir::Value a = one.add_input(f32(inner)), s = one.add_input(i64({2}));
    one.outputs = {ops::dropout(one, a, s, rate)};
    Tensor part(f32(inner)), state(i64({2}));
    for (int64_t i = 0; i < n; ++i) part.set(i, x.at(x_batched ? m * n + i : i));
    for (int64_t i = 0; i < 2; ++i) state.set(i, states.at(2 * m + i));
    const Tensor want = run(one, {part, state});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(got.at(m * n + i), want.at(i)) << "model " << m << ", element " << i;
  }
}

TEST(DropoutOfModels, WithOwnStatesDrawAsAlone) {
  const Tensor states = Tensor::of<int64_t>({3, 2}, {1, 2, 3, 4, 1, 3});
  expect_models_draw_alone(random_tensor({f32({3, 4, 5})}, 1), true, states);
  expect_models_draw_alone(random_tensor({f32({4, 5})}, 1), false, states);
}

TEST(DropoutOfModels, WithASharedStateGetPartsOfOneDraw) {
  ir::Graph g, whole;
  const std::vector<ir::Batched> in{{g.add_input(f32({3, 40})), true}, {g.add_input(i64({2})), false}};
  g.outputs = {ops::def::dropout.batch({g, *ir::make_attrs(ops::DropoutAttrs{0.5f}), in, Dim(3), {}})[0].value};
  const Tensor x = random_tensor({f32({3, 40}), 1, 2}, 1), state = Tensor::of<int64_t>({2}, {5, 6}), got = run(g, {x, state});
  const ir::Value a = whole.add_input(f32({3, 40})), s = whole.add_input(i64({2}));
  whole.outputs = {ops::dropout(whole, a, s, 0.5f)};
  EXPECT_TRUE(got.same_bits(run(whole, {x, state})));
  std::set<std::vector<bool>> masks;
  for (int64_t m = 0; m < 3; ++m) {
    std::vector<bool> mask;
    for (int64_t i = 0; i < 40; ++i) mask.push_back(got.at(m * 40 + i) != 0);
    masks.insert(mask);
  }
  EXPECT_EQ(masks.size(), 3u) << "two models have the same mask";
}

// vmap of vmap: the outer models have their own states, which the inner ones share.
TEST(DropoutOfModels, WithStatesOfOuterModelsInnerModelsDiffer) {
  ir::Graph g;
  const std::vector<ir::Batched> in{{g.add_input(f32({3, 2, 40})), true}, {g.add_input(i64({2, 2})), false}};
  const ir::Value y = ops::def::dropout.batch({g, *ir::make_attrs(ops::DropoutAttrs{0.5f}), in, Dim(3), {}})[0].value;
  g.outputs = {y};
  EXPECT_EQ(text(g.type(y)), "f32[3,2,40]");
  const Tensor got = run(g, {random_tensor({f32({3, 2, 40}), 1, 2}, 1), Tensor::of<int64_t>({2, 2}, {5, 6, 7, 8})});
  std::set<std::vector<bool>> masks;
  for (int64_t m = 0; m < 6; ++m) {
    std::vector<bool> mask;
    for (int64_t i = 0; i < 40; ++i) mask.push_back(got.at(m * 40 + i) != 0);
    masks.insert(mask);
  }
  EXPECT_EQ(masks.size(), 6u) << "two models have the same mask";
}

TEST(Dropout, GradientDropsTheSameElements) {
  ir::Graph g;
  const ir::Value x = g.add_input(f32({100})), state = g.add_input(i64({2})), y = ops::dropout(g, x, state, 0.3f);
  const ir::Value dy = g.add_input(f32({100})), results[] = {y}, cotangents[] = {dy};
  const ir::Node node = g[y];
  g.outputs = {y, node.op->vjp({g, *node.attrs, node.inputs, results, cotangents, {}})[0]};
  const Tensor ones = Tensor::from(f32({100}), std::vector<double>(100, 1));
  const std::vector<Tensor> got = evaluate(g, {ones, Tensor::of<int64_t>({2}, {1, 2}), ones});
  EXPECT_TRUE(got[0].same_bits(got[1]));
}

TEST(Dropout, RefusesElementsOutsideOfADraw) {
  for (int64_t first : {int64_t(-1), kMostBytes + 1}) {
    ir::Graph g;
    const ir::Value x = g.add_input(f32({2})), state = g.add_input(i64({2}));
    EXPECT_THROW(g.add(ops::def::dropout, ir::make_attrs(ops::DropoutAttrs{0.5f, first}), {x, state}), Error) << first;
  }
}

}  // namespace
}  // namespace lamina::tests
