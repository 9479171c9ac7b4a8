// data_parallel's cut by rows on random graphs: for every number of ranks the bits of one rank, and what the graph means on the whole
// batch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "graph/ops/ops.h"
#include "graph/passes/cut_rows.h"
#include "graph/passes/pipeline.h"
#include "runtime/core/error.h"
#include "runtime/dist/threads.h"
#include "runtime/dist/tree.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"
#include "tests/ops/op_case.h"

namespace lamina::passes {
namespace {

using namespace lamina::tests;
using ir::Cut;

constexpr double kRowTolerance = 2e-5;

// A graph whose inputs have rows along some axes.
struct Batch {
  RandomGraph random;
  int64_t rows = 1, shards = 8;
  std::vector<Cut> cuts;  // per input
};

// Row-major elements of rows [first, end).
Tensor part(const Tensor& whole, Cut cut, int64_t first, int64_t end) {
  if (cut.whole()) return whole.clone();
  TensorType type = whole.type;
  const size_t axis = size_t(cut.axis);
  const int64_t length = type.shape[axis].number();
  type.shape[axis] = (end - first) * cut.each;
  Tensor out(type);
  int64_t before = 1, after = int64_t(size_of(type.dtype));
  for (size_t a = 0; a < axis; ++a) before *= type.shape[a].number();
  for (size_t a = axis + 1; a < type.shape.size(); ++a) after *= type.shape[a].number();
  const int64_t bytes = (end - first) * cut.each * after;
  for (int64_t i = 0; i < before && bytes; ++i)
    std::memcpy(static_cast<char*>(out.raw()) + i * bytes, static_cast<const char*>(whole.raw()) + (i * length + first * cut.each) * after,
                size_t(bytes));
  return out;
}

struct Results {
  std::vector<Tensor> values;  // outputs, then resources
  std::vector<Cut> cuts;
  std::vector<GatheredRows> gathered;
};
// What each rank has at the end; exchanges run beside other work wherever they can.
std::vector<Results> run_on_ranks(const Batch& batch, int ranks, bool compiled) {
  std::vector<Results> out(static_cast<size_t>(ranks));
  distributed::run_ranks(ranks, [&](distributed::Communicator& c) {
    const auto [first, end] = distributed::rows_of_rank(batch.rows, batch.shards, ranks, c.rank());
    RowsGraph own =
        cut_rows(batch.random.graph,
                 {.rows = batch.rows, .shards = batch.shards, .ranks = ranks, .rank = c.rank(), .bucket_bytes = 64, .inputs = batch.cuts});
    RandomGraph g = batch.random;
    if (compiled) own.graph = optimize(own.graph).graph;
    g.graph = own.graph;
    for (size_t i = 0; i < g.inputs.size(); ++i) g.inputs[i] = part(g.inputs[i], batch.cuts[i], first, end);
    Results& mine = out[size_t(c.rank())];
    mine.values = run_all(g, [&](const ir::Graph& graph, const std::vector<Tensor>& inputs, Resources* resources) {
      return compiled ? run_program(graph, inputs, resources, {.share_all_streams = true}) : evaluate(graph, inputs, resources);
    });
    mine.cuts = own.outputs;
    mine.cuts.resize(mine.values.size());
    mine.gathered = own.gathered;
  });
  return out;
}

// Replicas on two devices, in one graph.
std::vector<Tensor> run_on_devices(const Batch& batch, int replicas, bool compiled) {
  std::vector<Device> devices;
  for (int r = 0; r < replicas; ++r) devices.push_back({DeviceKind::cpu, 0, int16_t(r % 2)});
  RandomGraph g = batch.random;
  g.graph =
      cut_rows(g.graph, {.rows = batch.rows, .shards = batch.shards, .devices = devices, .bucket_bytes = 64, .inputs = batch.cuts}).graph;
  if (compiled) g.graph = optimize(g.graph).graph;
  return run_all(g, [&](const ir::Graph& graph, const std::vector<Tensor>& inputs, Resources* resources) {
    return compiled ? run_program(graph, inputs, resources, {}) : evaluate(graph, inputs, resources);
  });
}

// "" or the first difference between `ranks` ranks and one.
std::string difference(const std::vector<Results>& one, const std::vector<Results>& many, const Batch& batch) {
  const int ranks = int(many.size());
  for (int r = 0; r < ranks; ++r) {
    const auto [first, end] = distributed::rows_of_rank(batch.rows, batch.shards, ranks, r);
    for (size_t i = 0; i < one[0].values.size(); ++i) {
      const Tensor expected = part(one[0].values[i], one[0].cuts[i], first, end), &actual = many[size_t(r)].values[i];
      if (!(actual.type == expected.type)) return cat("result ", i, " of rank ", r, " is ", actual.type, ", not ", expected.type);
      if (!actual.same_bits(expected)) return cat("result ", i, " of rank ", r, " of ", ranks, ": ", disagreement({expected}, {actual}, 0));
    }
  }
  return "";
}

std::string wrong(const Batch& batch, const std::vector<int>& ranks) {
  try {
    for (const bool compiled : {false, true}) {
      const std::vector<Results> one = run_on_ranks(batch, 1, compiled);
      const std::vector<Tensor> whole = run_all(batch.random);
      std::vector<std::vector<Tensor>> moved;
      for (uint64_t turn = 0; turn < 4; ++turn) moved.push_back(run_perturbed(batch.random, turn));
      const std::vector<Tensor> loose = farthest(whole, moved);
      if (std::string text = disagreement(whole, one[0].values, kRowTolerance, &loose); !text.empty())
        return cat(compiled ? "compiled" : "evaluated", " on one rank, beside the whole batch: ", text);
      for (int n : ranks)
        if (std::string text = difference(one, run_on_ranks(batch, n, compiled), batch); !text.empty())
          return cat(compiled ? "compiled: " : "evaluated: ", text);
      if (std::string text = disagreement(one[0].values, run_on_devices(batch, ranks[0], compiled), 0); !text.empty())
        return cat(compiled ? "compiled" : "evaluated", " on ", ranks[0], " devices: ", text);
    }
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

// Rows along the first axis of that length of most inputs, whichever inputs shrinking leaves.
Batch with_rows(RandomGraph random, int64_t rows, uint64_t seed) {
  Batch out{.random = std::move(random), .rows = rows, .shards = seed % 3 == 0 ? 4 : 8, .cuts = {}};
  for (const Tensor& t : out.random.inputs) {
    Cut cut;
    for (int a = 0; a < int(t.type.rank()) && cut.whole(); ++a)
      if (t.type.shape[size_t(a)] == Dim(rows) && (seed + uint64_t(t.size() ? std::abs(t.at(0)) * 1000 : 0)) % 5 != 0) cut = {a, 1};
    out.cuts.push_back(cut);
  }
  return out;
}
// The length of an axis that several inputs have: the first one's number of rows.
int64_t rows_of(const RandomGraph& random) { return random.inputs[0].type.shape[0].number(); }

TEST(CutRows, GivesTheBitsOfOneRankOnRandomGraphs) {
  const int count = random_graph_count(30);
  const uint64_t first = random_graph_seed(31000);
  Coverage coverage = no_coverage();
  std::map<std::string, int> gathered;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    RandomGraph random = random_graph(
        first + uint64_t(i),
        {.least_nodes = 20, .most_nodes = i % 3 == 0 ? 50 : 120, .gradients = i % 4 != 3, .wide = i % 3 == 1, .collectives = false});
    count_ops(random.graph, coverage);
    const std::vector<int> ranks = i % 2 ? std::vector{2, 4} : std::vector{3, i % 4 ? 4 : 2};
    const Batch batch = with_rows(random, rows_of(random), first + uint64_t(i));
    if (wrong(batch, ranks).empty()) {
      const RowsGraph cut = cut_rows(batch.random.graph, {.rows = batch.rows, .shards = batch.shards, .inputs = batch.cuts});
      for (const GatheredRows& g : cut.gathered) ++gathered[g.op];
      continue;
    }
    const RandomGraph small = shrink(batch.random, [&](const RandomGraph& smaller) {
      return !wrong(with_rows(smaller, batch.rows, first + uint64_t(i)), ranks).empty();
    });
    const Batch least = with_rows(small, batch.rows, first + uint64_t(i));
    std::string cuts;
    for (const Cut& c : least.cuts) cuts += cat(' ', c.axis);
    ADD_FAILURE() << wrong(least, ranks) << "\n"
                  << least.rows << " rows in " << least.shards << " shards along axes" << cuts << "\n"
                  << describe(small);
  }
  std::string rows_of;
  for (const auto& [op, times] : gathered) rows_of += cat(' ', op, ' ', times);
  std::printf("%d random graphs, seeds from %s; rows gathered for:%s\n", count, std::to_string(first).c_str(), rows_of.c_str());
}

// Each op's cases with rows along each axis of its inputs: by its rule, or with the rows gathered.
TEST(CutRows, EveryOpGoesOnByRowsOrGetsThemGathered) {
  const int each = std::getenv("LAMINA_TEST_LONG") ? 1 : 4;
  int turn = 0, ways = 0;
  std::map<std::string, std::pair<int, int>> of_op;  // by rows, gathered
  for (const auto& [name, make] : cases_of_ops())
    for (const OpCase& c : make()) {
      std::vector<CaseInput> in = inputs_as(c, c.dtypes[0]);
      std::set<std::pair<int, int64_t>> done;  // axis and length
      for (const CaseInput& input : in)
        for (int axis = 0; axis < int(input.type.rank()); ++axis) {
          const Dim rows = input.type.shape[size_t(axis)];
          if (!rows.known() || rows.number() == 0 || size_of(input.type.shape).number() > 100'000) continue;
          if (!done.emplace(axis, rows.number()).second || turn++ % each) continue;
          Batch batch{.random = {}, .rows = rows.number(), .shards = 8, .cuts = {}};
          Graph& g = batch.random.graph;
          for (const CaseInput& one : in) {
            g.add_input(one.type);
            batch.random.inputs.push_back(random_tensor(one, uint64_t(turn)));
            const bool has_rows = axis < int(one.type.rank()) && one.type.shape[size_t(axis)] == rows;
            batch.cuts.push_back(has_rows ? Cut{axis, 1} : Cut{});
          }
          const ir::Value first = g.add(ir::find_op(name), c.attrs, g.inputs, c.regions);
          for (size_t r = 0; r < g[first].types.size(); ++r) g.outputs.push_back({first.node, int(r)});
          const std::string text = wrong(batch, {3});
          EXPECT_EQ(text, "") << name << ", " << c.name << ", rows along axis " << axis << "\n" << ir::print(g);
          const bool gathered = !cut_rows(g, {.rows = batch.rows, .shards = batch.shards, .inputs = batch.cuts}).gathered.empty();
          ++(gathered ? of_op[name].second : of_op[name].first);
          ++ways;
        }
    }
  std::string rules, without;
  for (const auto& [name, times] : of_op) (times.first ? rules : without) += ' ' + name;
  std::printf("%d ways to cut an op; always gathered:%s\n", ways, without.c_str());
  for (const char* op :
       {"add", "matmul", "sum", "mean", "max", "softmax", "conv2d", "gather", "scatter_add", "dropout", "sparse_cross_entropy"})
    EXPECT_GT(of_op[op].first, 0) << op << " is never computed by rows";
}

}  // namespace
}  // namespace lamina::passes
