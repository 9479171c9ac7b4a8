// Properties of every pass on random graphs: the result verifies, a second run changes nothing, the input graph is unchanged, and the
// result computes the same: bit for bit where the pass promises it, otherwise within rounding.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/passes/pipeline.h"
#include "graph/passes/rewrite.h"
#include "runtime/core/error.h"
#include "tests/graph/random_graph.h"

namespace lamina::passes {
namespace {

using namespace lamina::tests;

// For f32 graphs, relative to a result's largest element.
constexpr double kTolerance = 2e-5;

// "" or the error of one pass on one graph.
std::string broken_promise(const Pass& pass, const RandomGraph& random) {
  const int stride = pass.stage == Stage::plan ? 3 : 0;
  const std::string text = ir::print(random.graph);
  RandomGraph after = random;
  try {
    after.graph = run_everywhere(pass, random.graph, stride);
    ir::verify(after.graph);
  } catch (const Error& error) {
    return cat(pass.name, ": ", error.what());
  }
  if (ir::print(random.graph) != text) return cat(pass.name, " changes its input");
  const Graph again = run_everywhere(pass, after.graph, stride);
  if (pass.run != recompute_values && !ir::equal(again, after.graph))  // each run saves more memory
    return cat(pass.name, " changes more when it runs again:\n", ir::print(after.graph), "then\n", ir::print(again));
  const std::vector<Tensor> expected = run_all(random);
  const bool same = pass.numbers == Numbers::same;
  const std::vector<Tensor> loose = same ? std::vector<Tensor>{} : run_perturbed(random);
  const std::string difference = disagreement(expected, run_all(after), same ? 0 : kTolerance, same ? nullptr : &loose);
  return difference.empty() ? "" : cat(pass.name, ": ", difference, "\n", ir::print(after.graph));
}

void test_passes(uint64_t seed, const RandomGraphOptions& options, Coverage& coverage) {
  RandomGraph random = random_graph(seed, options);
  ir::verify(random.graph);
  count_ops(random.graph, coverage);
  // Each pass on the traced graph, and on the output of the passes before it.
  RandomGraph piped = random;
  for (const Pass& pass : pipeline())
    for (const RandomGraph* g : {&random, &piped}) {
      if (std::string wrong = broken_promise(pass, *g); !wrong.empty()) {
        const RandomGraph small = shrink(*g, [&](const RandomGraph& smaller) { return !broken_promise(pass, smaller).empty(); });
        FAIL() << broken_promise(pass, small) << "\n" << describe(small);
      }
      if (g == &piped) piped.graph = run_everywhere(pass, piped.graph);
    }
  const std::vector<Tensor> loose = run_perturbed(random);
  RandomGraph optimized = random;
  optimized.graph = optimize(random.graph).graph;
  EXPECT_TRUE(ir::equal(optimized.graph, piped.graph)) << "optimize() is not its passes one after the other\n" << describe(random);
  EXPECT_EQ(disagreement(run_all(random), run_all(optimized), kTolerance, &loose), "") << describe(random);
  // Running the pipeline twice: only the meaning is compared, because the texts may still change.
  optimized.graph = optimize(optimized.graph).graph;
  EXPECT_EQ(disagreement(run_all(random), run_all(optimized), kTolerance, &loose), "") << describe(random);
}

TEST(Passes, KeepTheirPromisesOnRandomGraphs) {
  Coverage coverage = no_coverage();
  const int count = random_graph_count(79);
  const uint64_t first = random_graph_seed(1000);
  int done = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    RandomGraphOptions options;
    options.gradients = i % 4 != 3;
    options.most_nodes = i % 3 == 0 ? 60 : 200;
    test_passes(first + uint64_t(i), options, coverage);
    ++done;
  }
  std::printf("%d random graphs, seeds from %s; %s\n", done, std::to_string(first).c_str(), coverage_text(coverage).c_str());
  std::printf("print is in none: it would write on the terminal, and its tests are tests/python/test_effects.py\n");
  std::printf("dense_grad_weights is in none: a GPU's large layers outside of sections become it when they are compiled\n");
  std::printf("factors of matrices are in none: they need regular ones, and LAPACK; their tests are tests/python/test_linalg.py\n");
  std::printf("complex numbers and fft are in none; their tests are tests/python/test_complex.py and test_fft.py\n");
  for (const char* name : {"print", "dense_grad_weights", "as_complex", "as_real", "fft", "cholesky", "eigh", "qr", "slogdet", "solve",
                           "svd", "triangular_solve"})
    coverage.erase(name);
  for (const auto& [name, graphs] : coverage) EXPECT_GE(graphs, std::min(20, count / 20)) << name << " is hardly ever in a random graph";
}

TEST(Passes, KeepTheirPromisesOnRandomGraphsWithEmptyAxes) {
  Coverage coverage = no_coverage();
  const int count = random_graph_count(20);
  const uint64_t first = random_graph_seed(21000);
  for (int i = 0; i < count && !HasFailure(); ++i)
    test_passes(first + uint64_t(i), {.most_nodes = 100, .gradients = i % 2 == 0, .empty_axes = true}, coverage);
}

}  // namespace
}  // namespace lamina::passes
