#include "graph/autodiff/gradient.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/graph/hundred_layers.h"
#include "tests/graph/random_graph.h"

namespace lamina::autodiff {
namespace {

using namespace lamina::tests;
using ir::Graph;
using ir::Value;

TensorType scalar_f64() { return {DType::f64, {}}; }

std::vector<Value> differentiate(Graph& g, Value target, std::vector<Value> sources, int first_node = 0,
                                 std::function<bool(int)> blocks = {}) {
  return gradient(g,
                  {.targets = {&target, 1}, .cotangents = {}, .sources = sources, .first_node = first_node, .blocks = std::move(blocks)});
}

TEST(Gradient, AddsUpOverSeveralPaths) {
  Graph g;
  const Value x = g.add_input(scalar_f64()), y = g.add_input(scalar_f64());
  const Value z = ops::add(g, ops::mul(g, x, y), ops::mul(g, x, ops::sin(g, x)));
  g.outputs = differentiate(g, z, {x, y});
  const double a = 0.7, b = -1.3;
  const auto d = evaluate(g, {Tensor::of<double>({}, {a}), Tensor::of<double>({}, {b})});
  EXPECT_NEAR(d[0].at(0), b + std::sin(a) + a * std::cos(a), 1e-14);
  EXPECT_NEAR(d[1].at(0), a, 1e-15);
}

TEST(Gradient, OfAGradientIsTheSecondDerivative) {
  Graph g;
  const Value x = g.add_input(scalar_f64());
  const Value cube = ops::mul(g, ops::square(g, x), x);
  const Value first = differentiate(g, cube, {x})[0];
  g.outputs = {first, differentiate(g, first, {x})[0]};
  const auto d = evaluate(g, {Tensor::of<double>({}, {1.7})});
  EXPECT_NEAR(d[0].at(0), 3 * 1.7 * 1.7, 1e-13);
  EXPECT_NEAR(d[1].at(0), 6 * 1.7, 1e-13);
}

TEST(Gradient, UndoesBroadcasting) {
  Graph g;
  const Value x = g.add_input({DType::f32, {Dim::symbol("n"), 3}}), b = g.add_input({DType::f32, {3}}), s = g.add_input({DType::f32, {}});
  const Value y = ops::sum(g, ops::mul(g, ops::add(g, x, b), s));
  const auto d = differentiate(g, y, {x, b, s});
  EXPECT_EQ(text(g.type(d[0])), "f32[n,3]");
  EXPECT_EQ(text(g.type(d[1])), "f32[3]");
  EXPECT_EQ(text(g.type(d[2])), "f32[]");
}

TEST(Gradient, StartsFromCotangentsAndSeveralTargets) {
  Graph g;
  const Value x = g.add_input({DType::f64, {2}}), c = g.add_input({DType::f64, {2}});
  const std::vector<Value> targets{ops::square(g, x), ops::sum(g, x)}, cotangents{c, Value{}}, sources{x};
  g.outputs = gradient(g, {.targets = targets, .cotangents = cotangents, .sources = sources, .first_node = 0, .blocks = {}});
  const auto d = evaluate(g, {Tensor::of<double>({2}, {1, 2}), Tensor::of<double>({2}, {10, 100})});
  EXPECT_EQ(d[0].values(), (std::vector<double>{21, 401}));
  const std::vector<Value> wrong{g.add_input({DType::f64, {3}}), Value{}};
  EXPECT_THROW(gradient(g, {.targets = targets, .cotangents = wrong, .sources = sources, .first_node = 0, .blocks = {}}), Error);
}

TEST(Gradient, OfATargetWithRespectToItselfIsOnes) {
  Graph g;
  const Value x = g.add_input({DType::f32, {2, 3}});
  g.outputs = differentiate(g, x, {x});
  EXPECT_EQ(evaluate(g, {Tensor({DType::f32, {2, 3}})})[0].values(), std::vector<double>(6, 1));
}

TEST(Gradient, GivesNothingWhereNoPathLeads) {
  Graph g;
  const Value x = g.add_input({DType::f32, {3}}), y = g.add_input({DType::f32, {3}}), labels = g.add_input({DType::i64, {3}});
  const Value whole = ops::astype(g, x, DType::i32);
  const Value z = ops::sum(g, ops::add(g, ops::astype(g, whole, DType::f32), ops::gather(g, x, labels, 0)));
  const auto d = differentiate(g, z, {x, y, labels});
  EXPECT_TRUE(d[0].valid());
  EXPECT_FALSE(d[1].valid());
  EXPECT_FALSE(d[2].valid());
  // No gradient flows through integers.
  EXPECT_FALSE(differentiate(g, ops::sum(g, ops::astype(g, whole, DType::f32)), {x})[0].valid());
}

TEST(Gradient, FlowsThroughEveryResultOfANode) {
  Graph g;
  const Value logits = g.add_input({DType::f64, {2, 3}}), labels = g.add_constant(ir::Literal::of<int64_t>({2}, {2, 0}));
  const Value losses = ops::sparse_cross_entropy(g, logits, labels);
  const Value both = ops::add(g, ops::sum(g, losses), ops::sum(g, ops::square(g, {losses.node, 1})));
  g.outputs = {both, differentiate(g, both, {logits})[0]};
  const std::vector<double> at{0.3, -0.2, 0.9, 1.1, 0.4, -0.7};
  const Tensor slope = evaluate(g, {Tensor::of<double>({2, 3}, at)})[1];
  for (size_t i = 0; i < at.size(); ++i) {
    std::vector<double> up = at, down = at;
    up[i] += 1e-6, down[i] -= 1e-6;
    const double difference =
        (evaluate(g, {Tensor::of<double>({2, 3}, up)})[0].at(0) - evaluate(g, {Tensor::of<double>({2, 3}, down)})[0].at(0)) / 2e-6;
    EXPECT_NEAR(slope.at(int64_t(i)), difference, 1e-8);
  }
}

TEST(Gradient, StopsAtOlderNodesAndAtBlockedOnes) {
  Graph g;
  const Value x = g.add_input({DType::f32, {3}});
  const Value old = ops::exp(g, x);
  const int first = g.size();
  const Value y = ops::mul(g, old, x), stopped = ops::sin(g, x);
  const Value z = ops::sum(g, ops::add(g, y, stopped));
  auto blocks = [&](int node) { return node == stopped.node; };
  const auto d = differentiate(g, z, {x, old}, first, blocks);
  g.outputs = {d[0], d[1]};
  const auto value = evaluate(g, {Tensor::of<float>({3}, {0, 1, 2})});
  EXPECT_FLOAT_EQ(float(value[0].at(1)), std::exp(1.0f)) << "exp itself and sin give nothing to x";
  EXPECT_EQ(value[1].values(), (std::vector<double>{0, 1, 2}));
}

TEST(Gradient, MarksNodesWithTheForwardLineAndScope) {
  Graph g;
  const Value x = g.add_input({DType::f32, {3}});
  g.place = {source_line("train.py", 41), "layer1/", parse_device("cpu:1")};
  const Value y = ops::tanh(g, x);
  g.place = {source_line("train.py", 50), "", {}};
  const Value loss = ops::sum(g, y);
  const int size = g.size();
  const Value d = differentiate(g, loss, {x})[0];
  ASSERT_TRUE(d.valid());
  EXPECT_EQ(text(g[d].line), "train.py:41");
  EXPECT_EQ(g[d].scope, "grad/layer1/");
  EXPECT_EQ(g[d].device, parse_device("cpu:1"));
  EXPECT_EQ(text(g[size].line), "train.py:50");
  EXPECT_EQ(g[size].scope, "grad/");
  EXPECT_EQ(text(g.place.line), "train.py:50") << "the place of the next node is the caller's again";
}

TEST(Gradient, RefusesIntegerTargets) {
  Graph g;
  const Value x = g.add_input({DType::i32, {3}});
  try {
    differentiate(g, x, {x});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::type);
    EXPECT_NE(std::string(error.what()).find("i32[3]"), std::string::npos) << error.what();
  }
}

TEST(Gradient, NamesTheOpAndTheLineWithoutAGradient) {
  Graph g;
  const Value x = g.add_input({DType::f32, {2, 3}}), w = g.add_input({DType::f32, {3, 4}});
  g.place.line = source_line("model.py", 7);
  const Value y = ops::dense(g, x, w, {}, section::Activation::none);
  const Value loss = ops::sum(g, y), other = ops::sum(g, x);
  try {
    differentiate(g, loss, {w});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("dense"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("model.py:7"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(differentiate(g, other, {x})) << "it is not on this path";
}

// For f64 graphs: the derivative along a random direction of all sources, against central differences.
TEST(Gradient, AgreesWithDifferencesOnRandomGraphs) {
  const int count = random_graph_count(60);
  const uint64_t first_seed = random_graph_seed(5000);
  Coverage coverage = no_coverage();
  int sources = 0, jumps = 0;
  double worst = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const RandomGraph random =
        random_graph(first_seed + uint64_t(i), {.least_nodes = 20, .most_nodes = 200, .gradients = true, .only_f64 = true});
    if (random.sources.empty()) continue;
    count_ops(random.graph, coverage);
    RandomGraph slopes = random;
    slopes.graph.outputs = random.gradients;
    const std::vector<Tensor> gradients = run_all(slopes);
    std::vector<int> nodes;
    for (Value v : random.sources) nodes.push_back(v.node);
    RandomGraph free = with_inputs_instead(random, nodes);
    free.graph.outputs = {free.target};
    const size_t first = free.inputs.size() - nodes.size();
    std::mt19937_64 randomness(random.seed);
    for (size_t s = 0; s < nodes.size(); ++s) {
      const Tensor at = free.inputs[first + s];
      std::normal_distribution<double> normal;
      double expected = 0, size = 0;
      std::vector<double> direction;
      for (int64_t e = 0; e < at.size(); ++e) {
        direction.push_back(normal(randomness));
        expected += direction.back() * gradients[s].at(e);
        size += std::abs(direction.back() * gradients[s].at(e));
      }
      auto value_at = [&](double step) {
        Tensor moved = at.clone();
        for (int64_t e = 0; e < at.size(); ++e) moved.set(e, at.at(e) + step * direction[size_t(e)]);
        free.inputs[first + s] = moved;
        const double value = run_all(free)[0].at(0);
        free.inputs[first + s] = at;
        return value;
      };
      // Richardson: the difference's error falls with the fourth power of the step.
      const double h = 1e-4;
      const double wide = (value_at(h) - value_at(-h)) / (2 * h), narrow = (value_at(h / 2) - value_at(-h / 2)) / h;
      const double difference = (4 * narrow - wide) / 3;
      const double scale = std::max({size, std::abs(difference), 1e-3});
      if (std::abs(wide - narrow) > 0.01 * scale) {  // within a step: a jump, of trunc for one, halves with the step's width
        ++jumps;
        continue;
      }
      worst = std::max(worst, std::abs(difference - expected) / scale);
      EXPECT_NEAR(difference, expected, 1e-6 * scale) << "source %" << random.sources[s].node << "\n" << describe(random);
      ++sources;
    }
  }
  EXPECT_GE(sources, count);
  EXPECT_LE(jumps, sources / 100 + 1);
  std::printf("%d f64 graphs, %d sources, %d at jumps, worst relative difference %.1e; %s\n", count, sources, jumps, worst,
              coverage_text(coverage).c_str());
}

TEST(Gradient, GrowsLinearlyWithTheNumberOfLayers) {
  auto nodes = [](int layers) { return hundred_layers({.layers = layers, .gradients = true}).graph.size(); };
  const int hundred = nodes(100), two_hundred = nodes(200), three_hundred = nodes(300);
  EXPECT_EQ(three_hundred - two_hundred, two_hundred - hundred);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const HundredLayers model = hundred_layers({.gradients = true});
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("building and differentiating 100 layers (%d nodes): %.2f ms\n", hundred, best);
}

}  // namespace
}  // namespace lamina::autodiff
