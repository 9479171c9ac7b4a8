// Random graphs run in every way there is, and agree: node by node, and as Programs of the traced and of the optimised graph, with and
// without sections, with one and two threads.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/passes/pipeline.h"
#include "runtime/core/error.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {
namespace {

// Relative to a result's largest element.
constexpr double kTolerance = 2e-5;

struct Way {
  std::string name;
  bool optimize, sections;
  int threads;
};

std::vector<Tensor> run(const RandomGraph& random, const Way& way) {
  RandomGraph g = random;
  if (way.optimize) g.graph = passes::optimize(random.graph).graph;
  compile::Options options;
  options.sections = way.sections;
  options.threads = way.threads;
  return run_all(g, [&](const ir::Graph& graph, const std::vector<Tensor>& inputs, Resources* resources) {
    return run_program(graph, inputs, resources, options);
  });
}

std::string wrong(const RandomGraph& random, const Way& way) {
  try {
    const std::vector<Tensor> loose = run_perturbed(random);
    return disagreement(run_all(random), run(random, way), kTolerance, &loose);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Programs, AgreeWithTheGraphOnRandomGraphs) {
  const int count = random_graph_count(40);
  Coverage coverage = no_coverage();
  const Way ways[] = {{"as traced, no sections", false, false, 1},
                      {"as traced", false, true, 1},
                      {"optimized, no sections", true, false, 1},
                      {"optimized", true, true, 1}};
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const RandomGraph random = random_graph(
        uint64_t(9000 + i), {.least_nodes = 20, .most_nodes = i % 3 == 0 ? 60 : 200, .gradients = i % 4 != 3, .only_f64 = false});
    count_ops(random.graph, coverage);
    for (const Way& way : ways) {
      if (wrong(random, way).empty()) continue;
      const RandomGraph small = shrink(random, [&](const RandomGraph& smaller) { return !wrong(smaller, way).empty(); });
      ADD_FAILURE() << way.name << ": " << wrong(small, way) << "\n" << describe(small);
    }
    // The same bits for any number of threads.
    const std::vector<Tensor> one = run(random, {"", true, true, 1}), two = run(random, {"", true, true, 2});
    EXPECT_EQ(disagreement(one, two, 0), "") << "one and two threads\n" << describe(random);
  }
  std::printf("%d random graphs, seeds 9000 to %d; %s\n", count, 8999 + count, coverage_text(coverage).c_str());
}

}  // namespace
}  // namespace lamina::tests
