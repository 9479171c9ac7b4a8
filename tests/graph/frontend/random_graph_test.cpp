// Random graphs as a user's program: called op by op, and inside of a traced function that is called twice.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "graph/frontend/replay.h"
#include "graph/frontend/typed_function.h"
#include "runtime/core/error.h"
#include "tests/graph/random_graph.h"

namespace lamina {
namespace {

constexpr double kTolerance = 2e-5;  // relative to a result's largest element

using Reference = tests::Tensor;

Tensor to_tensor(const Reference& t) {
  return Tensor(copy_from_host(default_device(), t.raw(), t.byte_count()), std::make_shared<const TensorType>(t.type));
}
Reference to_reference(const Tensor& t) {
  Reference out(t.type());
  copy_to_host(out.raw(), t.buffer(), 0, out.byte_count());
  return out;
}

// The user's program: calls the graph's ops in order, `times` in a row, each time from the Variables that the last one left.
std::vector<Reference> run(const tests::RandomGraph& g, bool traced, int times) {
  std::vector<Variable> variables;
  for (size_t r = 0; r < g.graph.resources.size(); ++r) {
    const ir::Resource& resource = g.graph.resources[r];
    const auto value = g.resources.find(int(r));
    variables.emplace_back(to_tensor(value == g.resources.end() ? Reference(resource.type) : value->second), resource.name);
  }
  std::vector<Tensor> inputs;
  for (const Reference& t : g.inputs) inputs.push_back(to_tensor(t));
  auto traced_program = function([&](std::vector<Tensor> in) { return replay(g.graph, in, variables); });
  std::vector<Tensor> out;
  for (int i = 0; i < times; ++i) out = traced ? traced_program(inputs) : replay(g.graph, inputs, variables);
  std::vector<Reference> results;
  for (const Tensor& t : out) results.push_back(to_reference(t));
  for (const auto& [r, unused] : g.resources) results.push_back(to_reference(variables[size_t(r)].read()));
  return results;
}

std::string wrong(const tests::RandomGraph& g) {
  try {
    const std::vector<Reference> loose = tests::run_perturbed(g), expected = tests::run_all(g);
    if (std::string text = tests::disagreement(expected, run(g, false, 1), 0); !text.empty()) return "op by op: " + text;
    if (std::string text = tests::disagreement(expected, run(g, true, 1), kTolerance, &loose); !text.empty()) return "traced: " + text;
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Function, RunsRandomGraphsLikeTheirEagerOps) {
  const int count = tests::random_graph_count(30);
  const uint64_t first = tests::random_graph_seed(5000);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const tests::RandomGraph g = tests::random_graph(
        first + uint64_t(i),
        {.least_nodes = 20, .most_nodes = i % 3 == 0 ? 60 : 200, .gradients = i % 4 != 3, .wide = i % 5 == 4, .only_f64 = false});
    if (wrong(g).empty()) continue;
    const tests::RandomGraph small = tests::shrink(g, [&](const tests::RandomGraph& smaller) { return !wrong(smaller).empty(); });
    ADD_FAILURE() << wrong(small) << "\n" << tests::describe(small);
  }
  std::printf("%d random graphs, seeds from %s\n", count, std::to_string(first).c_str());
}

}  // namespace
}  // namespace lamina
