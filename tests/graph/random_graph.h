// Random graphs over every op, with values to run them on. The generator evaluates each node as it adds it, and removes nodes on which two
// correct implementations may disagree: NaN and infinity, huge or vanishing results, and discontinuities (comparisons, relu, floor ...)
// closer than rounding.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "tests/ops/evaluate.h"

namespace lamina::tests {

struct RandomGraph {
  ir::Graph graph;
  std::vector<Tensor> inputs;
  Resources resources;
  uint64_t seed = 0;
  // For a graph with gradients: the scalar that was differentiated, with respect to what, and the derivatives.
  ir::Value target;
  std::vector<ir::Value> sources, gradients;
};

struct RandomGraphOptions {
  int least_nodes = 20, most_nodes = 200;
  bool gradients = true;    // of a random scalar with respect to some inputs and Variables, which may be updated with them
  bool wide = false;        // lengths from 8 to 70 instead of 1 to 6
  bool empty_axes = false;  // some lengths are 0
  bool collectives = true;  // of a job of one rank
  bool only_f64 = false;    // every floating value is f64, and there is no stop_gradient: gradients can be compared with differences
};
// The same graph for the same seed and options.
RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

// In how many graphs each op occurred; every op of ops.inc has an entry.
using Coverage = std::map<std::string, int>;
Coverage no_coverage();
void count_ops(const ir::Graph& g, Coverage& coverage);
std::string coverage_text(const Coverage& coverage);  // one line, rarest first

// Number of graphs in a test: LAMINA_TEST_COUNT, or `long_count` with LAMINA_TEST_LONG=1, or `quick_count`.
int random_graph_count(int quick_count, int long_count = 2000);
// The seed of a test's first graph: `usual`, or LAMINA_TEST_SEED if set, so that a run can try new graphs.
uint64_t random_graph_seed(uint64_t usual);

// A smaller graph that still fails: drops irrelevant outputs, assigns and nodes. Dropped nodes become inputs with their values.
RandomGraph shrink(RandomGraph failing, const std::function<bool(const RandomGraph&)>& fails);
// Replaces these nodes' results by inputs with their values; an assign is just removed. The new inputs come last, in the order of `nodes`
// (sorted) and of their results.
RandomGraph with_inputs_instead(const RandomGraph& from, const std::vector<int>& nodes);
// The graph and its options, for a failure's message.
std::string describe(const RandomGraph& g);

// "" when the tensors agree: bit for bit, or within `tolerance` of the largest element; otherwise where and how they differ. `loose`, if
// given: how far outputs move when inputs move by rounding errors; differences within ten times that agree too.
std::string disagreement(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual, double tolerance,
                         const std::vector<Tensor>* loose = nullptr);
// All results of running a graph: its outputs, then its resources. `run` is evaluate() or something that must agree with it.
using Run = std::function<std::vector<Tensor>(const ir::Graph&, const std::vector<Tensor>&, Resources*)>;
std::vector<Tensor> run_all(const RandomGraph& g, const Run& run = {});
// run_all() with inputs and resources moved by a few ulp, differently each turn: the effect of rounding alone.
std::vector<Tensor> run_perturbed(const RandomGraph& g, uint64_t turn = 0);
// run_all() with f64 for f32; results are converted back to the graph's types.
std::vector<Tensor> run_in_double(const RandomGraph& g);
// Among several runs, for each result the one farthest from the expected value.
std::vector<Tensor> farthest(const std::vector<Tensor>& expected, const std::vector<std::vector<Tensor>>& runs);
// disagreement() of a run with double precision, as far as the CPU's float32 does not explain it when inputs move by rounding errors.
std::string disagreement_in_double(const RandomGraph& g, const std::vector<Tensor>& found, double tolerance);

}  // namespace lamina::tests
