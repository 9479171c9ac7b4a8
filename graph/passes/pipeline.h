// The list of passes: what happens to a graph, in order, before kernels are selected.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/passes/passes.h"

namespace lamina::passes {

enum class Numbers : uint8_t { same, rounding };  // does the pass keep every bit, or only the meaning
enum class Stage : uint8_t {
  simplify,  // of the traced graph; lm.inspect(...).optimized shows the graph after these
  fuse,      // of the traced graph
  plan,      // of each graph that is compiled, with concrete shapes; regions of loops and branches are compiled by themselves
};

struct Pass {
  const char* name;
  ir::Graph (*run)(const ir::Graph&, const Target&);
  Numbers numbers;
  Stage stage;
  bool in_regions;  // the runner also runs it on the regions of loops and branches, the innermost first
  const char* doc;  // one sentence; why it stands here when it stands twice
};
LAMINA_API const std::vector<Pass>& pipeline();  // reads top to bottom as what happens

struct PassReport {
  std::string name;
  int nodes_before = 0, nodes_after = 0;
  bool changed = false;
  double microseconds = 0;
};
struct Optimized {
  ir::Graph graph;      // after all passes
  ir::Graph inspected;  // after the passes before elementwise fusion
  std::vector<PassReport> report;
};
// Runs the pipeline up to Stage::plan: times each pass, verifies after it ("after fuse_dense: ..."), dumps when LAMINA_DUMP names a folder,
// skips what LAMINA_DISABLE names (comma separated), stops after LAMINA_PASS_LIMIT passes.
LAMINA_API Optimized optimize(const ir::Graph& g, const Target& target = {});
// The same for the passes of Stage::plan, without times. Nothing when none of them changes the graph.
LAMINA_API std::optional<ir::Graph> optimize_for_plan(const ir::Graph& g, const Target& target);
// One pass on g, and on the regions of its loops and branches where the list says so.
LAMINA_API ir::Graph run_everywhere(const Pass& pass, const ir::Graph& g, const Target& target = {});
// For tests: which passes are off for this thread, besides LAMINA_DISABLE.
LAMINA_API void set_disabled_passes(std::vector<std::string> names);

}  // namespace lamina::passes
