// The list of passes that run, in order, before kernels are selected.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/passes/passes.h"

namespace lamina::passes {

enum class Numbers : uint8_t { same, rounding };  // whether a pass keeps every bit, or only the meaning
enum class Stage : uint8_t {
  simplify,  // of the traced graph; lm.inspect(...).optimized shows the graph after these
  fuse,      // of the traced graph
  plan,      // of a compiled graph that needs too much memory; regions of loops and branches are compiled separately
};

enum class Where : uint8_t {
  here,        // on the graph; what it does in regions, it does itself
  everywhere,  // on the regions of loops and branches, innermost first, and on the graph
  at_regions,  // the same, except on graphs in which no node has regions: it leaves those as they are
};

struct Pass {
  const char* name;
  ir::Graph (*run)(const ir::Graph&, int stride);  // the stride is recompute_values'
  Numbers numbers;
  Stage stage;
  Where where;
  const char* doc;  // one sentence; for a pass that stands twice also why it stands here
};
LAMINA_API const std::vector<Pass>& pipeline();  // in the order in which they run

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
// Runs the pipeline up to Stage::plan. Times each pass, verifies after it ("after fuse_dense: ..."), dumps when LAMINA_DUMP names a folder,
// skips the passes in LAMINA_DISABLE (comma separated), stops after LAMINA_PASS_LIMIT passes.
LAMINA_API Optimized optimize(const ir::Graph& g);
// The same for Stage::plan, without times. Empty when no pass changes the graph.
LAMINA_API std::optional<ir::Graph> optimize_for_plan(const ir::Graph& g, int stride);
// Runs one pass on g where Pass::where says.
LAMINA_API ir::Graph run_everywhere(const Pass& pass, const ir::Graph& g, int stride = 0);
// For tests: passes that are off in this thread, besides LAMINA_DISABLE.
LAMINA_API void set_disabled_passes(std::vector<std::string> names);

}  // namespace lamina::passes
