// join_leaves: where the gradients of a batch's leaves are added, one dense_update makes them. The bits are those of leaves by themselves.
#include <gtest/gtest.h>

#include <climits>
#include <random>

#include "graph/ops/ops.h"
#include "graph/passes/cut_rows.h"
#include "graph/passes/pipeline.h"
#include "tests/emulated/networks.h"
#include "tests/graph/compile/run.h"

namespace lamina::tests {
namespace {

using ir::Graph;

Graph step_of(int64_t rows, int ranks = 1, int rank = 0) {
  auto net = small_net(std::make_shared<optim::SGD>(0.1, 0.9));
  const Graph whole = net.concrete(patterned({rows, 40}, 0.01f), patterned({rows, 6}, 0.02f)).graph();
  const std::vector<ir::Cut> cuts{{0, 1}, {0, 1}};
  return passes::optimize(passes::cut_rows(whole, {.rows = rows, .ranks = ranks, .rank = rank, .inputs = cuts}).graph).graph;
}
Tensor values_of(const TensorType& type, unsigned seed) {
  std::mt19937 random(seed);
  Tensor out(type);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, std::normal_distribution<double>()(random));
  return out;
}
// Per dense_update: its leaves.
std::vector<int64_t> leaves_in(const Graph& g) {
  std::vector<int64_t> out;
  for (const ir::Node& node : g.nodes())
    if (node.op == &ops::def::dense_update) out.push_back(ir::attrs_of<ops::DenseUpdateAttrs>(*node.attrs).leaves);
  return out;
}

TEST(JoinLeaves, LeavesOfARankAreOne) {
  for (const int64_t rows : {16, 20, 64})
    for (const int ranks : {1, 2, 4}) {
      const Graph joined = passes::join_leaves(step_of(rows, ranks, ranks - 1), INT64_MAX);
      ir::verify(joined);
      EXPECT_EQ(leaves_in(joined), std::vector<int64_t>(3, 8 / ranks)) << rows << " rows on " << ranks << " ranks\n" << ir::print(joined);
    }
  // The gradient of a bias by one row is that row.
  EXPECT_EQ(leaves_in(passes::join_leaves(step_of(8), INT64_MAX)), std::vector<int64_t>(2, 8));
  // Leaves 0 and 1 are a node of the tree, leaf 2 is another one; one update makes all three.
  const Graph two_roots = step_of(24, 3, 0);
  EXPECT_TRUE(ir::equal(passes::join_leaves(two_roots, INT64_MAX), two_roots));
}

TEST(JoinLeaves, LeavesWithoutRowsAndLargeOnesStay) {
  const Graph few = step_of(7), large = step_of(64);
  EXPECT_TRUE(ir::equal(passes::join_leaves(few, INT64_MAX), few));
  EXPECT_TRUE(ir::equal(passes::join_leaves(large, 30 * 64 * 4 - 1), large));
  EXPECT_EQ(leaves_in(passes::join_leaves(large, 30 * 64 * 4)).size(), 2u) << "of the second layer, which is the smaller one";
}

TEST(JoinLeaves, AGradientThatSomethingElseUsesStays) {
  Graph g = step_of(64);
  for (int i = 0; i < g.size(); ++i)
    if (g[i].op == &ops::def::dense_update) g.outputs.push_back({i, 0});
  EXPECT_TRUE(ir::equal(passes::join_leaves(g, INT64_MAX), g));
}

TEST(JoinLeaves, TheReferenceAndAnyThreadsGiveTheBitsOfLeavesByThemselves) {
  for (const int64_t rows : {8, 13, 20, 64, 1100}) {
    const Graph g = step_of(rows), joined = passes::join_leaves(g, INT64_MAX);
    ASSERT_FALSE(ir::equal(joined, g));
    std::vector<Tensor> inputs;
    for (ir::Value v : g.inputs) inputs.push_back(values_of(g.type(v), unsigned(inputs.size())));
    const auto after = [&](const auto& run) {  // results and Variables
      Resources resources;
      for (size_t r = 0; r < g.resources.size(); ++r) resources[int(r)] = values_of(g.resources[r].type, 7 + unsigned(r));
      std::vector<Tensor> out = run(resources);
      for (const auto& [r, value] : resources) out.push_back(value);
      return out;
    };
    const auto apart = after([&](Resources& r) { return evaluate(g, inputs, &r); });
    EXPECT_TRUE(same_bits(apart, after([&](Resources& r) { return evaluate(joined, inputs, &r); }))) << rows << " rows";
    const auto one = after([&](Resources& r) { return run_program(g, inputs, &r, {.threads = 1}); });
    for (const int threads : {2, 3})
      EXPECT_TRUE(same_bits(one, after([&](Resources& r) { return run_program(g, inputs, &r, {.threads = threads}, 1); })))
          << rows << " rows on " << threads << " threads";
  }
}

}  // namespace
}  // namespace lamina::tests
