// Random graphs on the emulated GPU: Programs with sections, and the kernels that run beside them, against double precision.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "kernels/section/block_section.h"
#include "runtime/core/error.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/races.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {
namespace {

constexpr double kTolerance = 2e-5;  // of a result's largest element

std::string wrong(const RandomGraph& random) {
  const compile::Options options{.device = parse_device("gpu:0"), .sections = true};
  try {
    const std::vector<Tensor> found = run_all(random, [&](const ir::Graph& graph, const std::vector<Tensor>& inputs, Resources* resources) {
      return run_program(passes::optimize(graph).graph, inputs, resources, options);
    });
    return disagreement_in_double(random, found, kTolerance);
  } catch (const Error& error) {
    return error.what();
  }
}

// Steps of the graph's sections.
int steps_of(const RandomGraph& random) {
  int steps = 0;
  const auto program = compile::compile(passes::optimize(random.graph).graph, {.device = parse_device("gpu:0"), .sections = true});
  for (const exec::Instruction& i : program->instructions) steps += i.section_steps;
  return steps;
}

// Every plan is validated when it is made: running few graphs would leave most of them out.
TEST(RandomGraphs, AllHaveValidPlans) {
  if (kernels::cuda::races_are_checked()) GTEST_SKIP() << "nothing runs here that could race; lamina_emulated runs this test";
  const EmulatedGpu gpu;
  const int count = random_graph_count(8000, 80'000);
  const uint64_t first = random_graph_seed(1'000'000);
  long long steps = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const RandomGraph random =
        random_graph(first + uint64_t(i), {.least_nodes = 5, .most_nodes = i % 4 == 0 ? 60 : 30, .gradients = i % 2 == 0});
    try {
      steps += steps_of(random);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << describe(random);
    }
  }
  EXPECT_GT(steps, 3 * count);
}

TEST(RandomGraphs, AgreeWithDoublePrecisionOnTheEmulatedGpu) {
  if (kernels::cuda::races_are_checked()) GTEST_SKIP() << "takes minutes when every access is looked at; lamina_emulated runs this test";
  const EmulatedGpu gpu;
  const int count = random_graph_count(20, 2000);
  const uint64_t first = random_graph_seed(47000);
  Coverage coverage = no_coverage();
  long long steps = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const RandomGraph random = random_graph(
        first + uint64_t(i), {.least_nodes = 20, .most_nodes = i % 3 == 0 ? 120 : 60, .gradients = i % 4 != 3, .wide = i % 5 == 4});
    count_ops(random.graph, coverage);
    steps += steps_of(random);
    if (wrong(random).empty()) continue;
    const RandomGraph small = shrink(random, [](const RandomGraph& smaller) { return !wrong(smaller).empty(); });
    ADD_FAILURE() << wrong(small) << "\n" << describe(small);
  }
  EXPECT_GT(steps, 5 * count) << "steps of sections";
  std::printf("%d random graphs, seeds from %s, %lld steps of sections; %s\n", count, std::to_string(first).c_str(), steps,
              coverage_text(coverage).c_str());
}

}  // namespace
}  // namespace lamina::tests
