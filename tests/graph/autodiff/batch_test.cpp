// vmap's transform against a loop over the models: on random graphs, and on cases that these do not reach.
#include "graph/autodiff/batch.h"

#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/stacked_models.h"
#include "tests/ops/op_case.h"

namespace lamina::autodiff {
namespace {

using namespace lamina::tests;
using ir::Graph;
using ir::Value;

constexpr double kTolerance = 1e-4;  // relative to a result's largest element

// "" or how the batched graph differs from the loop.
std::string difference_to_loop(const RandomGraph& g, uint64_t seed) {
  const std::string before = ir::print(g.graph);
  const StackedModels all = stack_models(g, seed);
  ir::verify(all.together.graph);
  if (ir::print(g.graph) != before) return "batch() changes its input";
  Resources state;
  for (auto& [r, value] : all.together.resources) state[r] = value.clone();
  const std::vector<Tensor> results = evaluate(all.together.graph, all.together.inputs, &state);
  for (size_t m = 0; m < all.models.size(); ++m) {
    const RandomGraph& model = all.models[m];
    const std::vector<Tensor> loose = run_perturbed(model);
    Resources own;
    for (auto& [r, value] : model.resources) own[r] = value.clone();
    std::vector<Tensor> expected = evaluate(model.graph, model.inputs, &own), got;
    for (size_t i = 0; i < results.size(); ++i) got.push_back(all.outputs[i] ? part(results[i], m) : results[i]);
    for (auto& [r, value] : own) {
      expected.push_back(value);
      got.push_back(all.resources[size_t(r)] ? part(state.at(r), m) : state.at(r));
    }
    if (std::string wrong = disagreement(expected, got, kTolerance, &loose); !wrong.empty())
      return cat("model ", m, ": ", wrong, "\n", ir::print(all.together.graph));
  }
  return "";
}
std::string checked_difference(const RandomGraph& g, uint64_t seed) {
  try {
    return difference_to_loop(g, seed);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Batch, EqualsALoopOnRandomGraphsWithGradientsAndState) {
  Coverage coverage = no_coverage();
  const int count = random_graph_count(40);
  const uint64_t first = random_graph_seed(7000);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    RandomGraphOptions options;
    options.gradients = i % 3 != 2;
    options.most_nodes = i % 2 ? 60 : 200;
    const RandomGraph random = without_fused(random_graph(first + uint64_t(i), options));
    count_ops(random.graph, coverage);
    if (checked_difference(random, uint64_t(i)).empty()) continue;
    const RandomGraph small = shrink(random, [&](const RandomGraph& smaller) { return !checked_difference(smaller, uint64_t(i)).empty(); });
    FAIL() << checked_difference(small, uint64_t(i)) << "\n" << describe(small);
  }
  std::printf("%d random graphs, seeds from %s; %s\n", count, std::to_string(first).c_str(), coverage_text(coverage).c_str());
}

BatchedGraph batch_all_inputs(const Graph& g, int64_t size, std::vector<uint8_t> outputs = {}) {
  const std::vector<uint8_t> inputs(g.inputs.size(), 1);
  return batch(g, {.size = Dim(size), .inputs = inputs, .resources = {}, .outputs = outputs});
}

TEST(Batch, LeavesSharedValuesUnbatched) {
  Graph g;
  const Value x = g.add_input({DType::f32, {2, 3}}), e = ops::exp(g, g.add_input({DType::f32, {3}}));
  g.outputs = {ops::add(g, x, e), e};
  const uint8_t inputs[] = {1, 0};
  const BatchedGraph out = batch(g, {.size = Dim(4), .inputs = inputs});
  EXPECT_EQ(out.outputs, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(out.graph.type(out.graph.outputs[0]), (TensorType{DType::f32, {4, 2, 3}}));
  EXPECT_EQ(out.graph.type(out.graph.outputs[1]), (TensorType{DType::f32, {3}}));
}

TEST(Batch, RepeatsAnOutputThatMustHaveTheModelAxis) {
  Graph g;
  const Value x = g.add_input({DType::f32, {2}});
  g.outputs = {x};
  const uint8_t unbatched[] = {0}, wanted[] = {1};
  const BatchedGraph out = batch(g, {.size = Dim(3), .inputs = unbatched, .resources = {}, .outputs = wanted});
  EXPECT_EQ(out.graph.type(out.graph.outputs[0]), (TensorType{DType::f32, {3, 2}}));
}

TEST(Batch, GivesEachModelItsOwnDrawsFromASharedGenerator) {
  Graph g;
  const Value state = g.add_input({DType::i64, {2}});
  g.outputs = {ops::random_uniform(g, state, {DType::f32, {5}}, 0, 1)};
  const uint8_t shared[] = {0};
  BatchedGraph once = batch(g, {.size = Dim(2), .inputs = shared});
  EXPECT_EQ(once.outputs, (std::vector<uint8_t>{1}));
  const Tensor seed = Tensor::of<int64_t>({2}, {3, 4});
  const Tensor draws = evaluate(once.graph, {seed})[0];
  EXPECT_TRUE(part(draws, 0).same_bits(evaluate(g, {seed})[0])) << "model 0 draws the first numbers";
  EXPECT_FALSE(part(draws, 0).same_bits(part(draws, 1)));
}

TEST(Batch, KeepsStatesOfOuterModelsInFrontOfASharedDraw) {
  Graph g;
  const Value state = g.add_input({DType::i64, {2}});
  g.outputs = {ops::random_normal(g, state, {DType::f32, {5}}, 0, 1)};
  // Inner models have their own states, outer ones share them.
  BatchedGraph inner = batch_all_inputs(g, 2);
  const uint8_t shared[] = {0};
  BatchedGraph both = batch(inner.graph, {.size = Dim(3), .inputs = shared});
  EXPECT_EQ(both.graph.type(both.graph.outputs[0]), (TensorType{DType::f32, {3, 2, 5}}));
  const Tensor states = Tensor::of<int64_t>({2, 2}, {3, 4, 5, 6});
  const Tensor all = evaluate(both.graph, {states})[0];
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(part(all, i).same_bits(part(all, j)));
  EXPECT_FALSE(part(part(all, 0), 0).same_bits(part(part(all, 0), 1)));
}

TEST(Batch, NestedEqualsNestedLoops) {
  Graph g;
  const Value x = g.add_input({DType::f32, {2, 3}}), w = g.add_input({DType::f32, {3, 4}});
  g.outputs = {ops::softmax(g, ops::matmul(g, x, w), -1)};
  const uint8_t examples[] = {1, 0}, models[] = {0, 1};
  const BatchedGraph inner = batch(g, {.size = Dim(5), .inputs = examples});
  const BatchedGraph both = batch(inner.graph, {.size = Dim(6), .inputs = models});
  const Tensor xs = random_tensor({{DType::f32, {5, 2, 3}}}, 1), ws = random_tensor({{DType::f32, {6, 3, 4}}}, 2);
  const Tensor all = evaluate(both.graph, {xs, ws})[0];
  for (size_t m = 0; m < 6; ++m)
    for (size_t e = 0; e < 5; ++e) EXPECT_EQ(disagreement(evaluate(g, {part(xs, e), part(ws, m)}), {part(part(all, m), e)}, 1e-6), "");
}

TEST(Batch, WorksOnUnknownLengths) {
  Graph g;
  const Dim rows = Dim::symbol("rows");
  const Value x = g.add_input({DType::f32, {rows, 3}});
  g.outputs = {ops::sum(g, ops::mul(g, x, x), {0})};
  const uint8_t yes[] = {1};
  const Dim models = Dim::symbol("models");
  const BatchedGraph out = batch(g, {.size = models, .inputs = yes});
  EXPECT_EQ(out.graph.type(out.graph.outputs[0]), (TensorType{DType::f32, {models, 3}}));
}

TEST(Batch, RefusesAnAssignmentThatWouldKeepOneModelsValue) {
  Graph g;
  const int count = g.add_resource({"count", {DType::f32, {}}});
  const Value x = g.add_input({DType::f32, {}});
  ops::assign(g, count, x);
  try {
    batch_all_inputs(g, 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::invalid_argument);
    EXPECT_EQ(error.parts.what, "assign: under vmap each model has a value of its own for the variable 'count'");
  }
}

TEST(Batch, RepeatsASharedValueThatIsAssignedToAStackedVariable) {
  Graph g;
  const int count = g.add_resource({"count", {DType::f32, {2}}});
  ops::assign(g, count, ops::full(g, {DType::f32, {2}}, 7));
  const uint8_t yes[] = {1};
  const BatchedGraph out = batch(g, {.size = Dim(3), .inputs = {}, .resources = yes});
  EXPECT_EQ(out.graph.resources[0].type, (TensorType{DType::f32, {3, 2}}));
  Resources state{{0, Tensor({DType::f32, {3, 2}})}};
  evaluate(out.graph, {}, &state);
  EXPECT_EQ(state.at(0).values(), std::vector<double>(6, 7));
}

}  // namespace
}  // namespace lamina::autodiff
