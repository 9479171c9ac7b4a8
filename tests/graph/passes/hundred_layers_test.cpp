// The whole pipeline on the benchmark's traced training step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "tests/graph/hundred_layers.h"

namespace lamina::passes {
namespace {

using namespace lamina::tests;

std::map<std::string, int> counted_ops(const ir::Graph& g) {
  std::map<std::string, int> counts;
  for (const ir::Node& node : g.nodes()) ++counts[node.op->name];
  return counts;
}

TEST(HundredLayers, BecomeDenseNodesAndTheirGradients) {
  for (Dim batch : {Dim(20), Dim::symbol("n")}) {
    const HundredLayers model = hundred_layers({.batch = batch});
    const Optimized optimized = optimize(model.graph);
    for (const ir::Graph* g : {&optimized.inspected, &optimized.graph}) {
      auto counts = counted_ops(*g);
      EXPECT_EQ(counts["dense"], 101);
      EXPECT_EQ(counts["dense_grad_input"], 100);
      EXPECT_EQ(counts["dense_update"], 101);
      EXPECT_EQ(counts["matmul"], 0);
      EXPECT_EQ(counts["assign"], 203);
      EXPECT_EQ(counts["transpose"], 0);
      // A weight's gradient is never a value: values of a weight's shape are the weight as read, or the updated one.
      for (const ir::Node& node : g->nodes())
        for (const TensorType& type : node.types)
          for (int weight : model.weights)
            if (type == model.graph.resources[size_t(weight)].type) {
              EXPECT_TRUE(node.op == &ops::def::read || node.op == &ops::def::dense_update) << node.op->name << " " << type;
            }
      for (const ir::Node& node : g->nodes())
        if (node.op == &ops::def::dense_update) {
          EXPECT_EQ(node.types.size(), 2u) << "the new weight and the new bias, nothing else";
        }
    }
    int small = 0;
    for (const ir::Node& node : optimized.graph.nodes())
      small += node.op != &ops::def::read && node.op != &ops::def::assign && node.op != &ops::def::input && node.op != &ops::def::constant;
    EXPECT_LE(small, 302 + 20) << ir::print(optimized.graph);
  }
}

TEST(HundredLayers, KeepTheirNumbers) {
  const HundredLayers model = hundred_layers();
  const std::vector<Tensor> batch = random_batch(model, 1);
  Resources plain = initial_values(model, Initializer::looks_linear, 1), fused;
  for (const auto& [number, t] : plain) fused[number] = t.clone();
  const std::vector<Tensor> expected = evaluate(model.graph, batch, &plain);
  const std::vector<Tensor> actual = evaluate(optimize(model.graph).graph, batch, &fused);
  EXPECT_NEAR(actual[0].at(0), expected[0].at(0), 1e-4 * std::abs(expected[0].at(0)));
  for (const auto& [number, t] : plain)
    for (int64_t i = 0; i < t.size(); ++i) ASSERT_NEAR(fused[number].at(i), t.at(i), 1e-5) << model.graph.resources[size_t(number)].name;
}

// Relative to each layer's own gradient: with Glorot weights they are about 1e-17, so an absolute tolerance would accept zeros.
TEST(HundredLayers, HaveTheGradientsOfDoublePrecision) {
  const HundredLayers model = hundred_layers({.gradients = true});
  const ir::Graph optimized = optimize(model.graph).graph;
  auto counts = counted_ops(optimized);
  EXPECT_EQ(counts["dense_update"], 101);
  EXPECT_EQ(counts["matmul"], 0);
  const ir::Graph exact = in_f64(model.graph);
  for (Initializer initializer : {Initializer::glorot, Initializer::looks_linear}) {
    const std::vector<Tensor> batch = random_batch(model, 3);
    Resources values = initial_values(model, initializer, 3), wide;
    std::vector<Tensor> wide_batch;
    for (const auto& [number, t] : values) wide[number] = in_f64(t);
    for (const Tensor& t : batch) wide_batch.push_back(in_f64(t));
    const std::vector<Tensor> expected = evaluate(exact, wide_batch, &wide), actual = evaluate(optimized, batch, &values);
    ASSERT_EQ(expected.size(), 1u + 2 * 101);
    double worst = 0, least = 1e300, most = 0;
    for (size_t i = 1; i < expected.size(); ++i) {
      double error = 0, norm = 0, norm_actual = 0;
      for (int64_t e = 0; e < expected[i].size(); ++e) {
        error += std::pow(expected[i].at(e) - actual[i].at(e), 2);
        norm += std::pow(expected[i].at(e), 2);
        norm_actual += std::pow(actual[i].at(e), 2);
      }
      const double relative = std::sqrt(error / norm);
      EXPECT_GT(norm, 0) << "layer " << (i - 1) / 2;
      EXPECT_GT(norm_actual, 0) << "layer " << (i - 1) / 2;
      EXPECT_LE(relative, 1e-3) << (i % 2 ? "weight" : "bias") << " gradient of layer " << (i - 1) / 2;
      worst = std::max(worst, relative);
      if (i % 2)
        least = std::min(least, std::sqrt(norm / double(expected[i].size()))),
        most = std::max(most, std::sqrt(norm / double(expected[i].size())));
    }
    std::printf("%s: weight gradients from %.1e to %.1e (root mean square), worst relative error of a layer %.1e\n",
                initializer == Initializer::glorot ? "glorot" : "looks_linear", least, most, worst);
    if (initializer == Initializer::glorot) {
      EXPECT_LT(least, 1e-14) << "the case is not as hard as it is meant to be";
    }
  }
}

TEST(HundredLayers, ReportsWhatEachPassCosts) {
  const HundredLayers model = hundred_layers();
  std::vector<PassReport> best = optimize(model.graph).report;
  ASSERT_FALSE(best.empty());
  for (int i = 0; i < 10; ++i) {
    const std::vector<PassReport> now = optimize(model.graph).report;
    for (size_t p = 0; p < best.size(); ++p) best[p].microseconds = std::min(best[p].microseconds, now[p].microseconds);
  }
  double sum = 0;
  for (const PassReport& pass : best) {
    std::printf("  %-28s %5d -> %5d nodes %7.0f us%s\n", pass.name.c_str(), pass.nodes_before, pass.nodes_after, pass.microseconds,
                pass.changed ? "" : " (unchanged)");
    EXPECT_GT(pass.microseconds, 0);
    sum += pass.microseconds;
  }
  std::printf("the passes on %d nodes: %.1f ms\n", model.graph.size(), sum / 1000);
}

}  // namespace
}  // namespace lamina::passes
