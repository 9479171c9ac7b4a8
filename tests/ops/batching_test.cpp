// Batching rules must not run the models one after the other.
#include <gtest/gtest.h>

#include "graph/autodiff/batch.h"
#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

// Ops whose rule is a loop over the models: at most five, currently none.
const std::set<std::string> kLoops = {};

ir::Graph batched(const ir::OpDef& op, const OpCase& c, size_t choice, int64_t models) {
  ir::Graph g;
  std::vector<uint8_t> marks;
  for (const CaseInput& i : inputs_as(c, c.dtypes[0])) {
    g.add_input(i.type);
    marks.push_back(choice >> (marks.size() % 10) & 1);
  }
  const ir::Value first = g.add(op, c.attrs, g.inputs, c.regions);
  for (size_t r = 0; r < g[first].types.size(); ++r) g.outputs.push_back({first.node, int(r)});
  return autodiff::batch(g, {.size = Dim(models), .inputs = marks}).graph;
}

bool has_loops(const ir::Graph& g) {
  for (const ir::Node& node : g.nodes())
    if (node.op == &ops::def::scan || node.op == &ops::def::while_loop) return true;
  return false;
}

TEST(BatchingRules, NumberOfNodesDoesNotDependOnTheNumberOfModels) {
  EXPECT_LE(kLoops.size(), 5u);
  int checked = 0;
  for (const auto& [name, make] : cases_of_ops()) {
    const ir::OpDef& op = ir::find_op(name);
    if (!op.batch) {
      std::printf("not batched: %s: %s\n", name.c_str(), op.no_batch);
      continue;
    }
    bool loops = false;
    for (const OpCase& c : make())
      for (size_t choice = 1; choice < (size_t(1) << std::min<size_t>(c.in.size(), 4)); ++choice) {
        SCOPED_TRACE(cat(name, ", ", c.name, ", choice ", choice));
        const ir::Graph three = batched(op, c, choice, 3), five = batched(op, c, choice, 5);
        loops = loops || three.size() != five.size() || has_loops(three);
        ++checked;
      }
    EXPECT_EQ(loops, kLoops.contains(name)) << name << " runs models one after the other";
  }
  std::printf("%d ways to batch an op, %zu loops\n", checked, kLoops.size());
}

}  // namespace
}  // namespace lamina::tests
