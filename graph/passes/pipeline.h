// The pass pipeline: what happens to a graph, in order, before it is planned.
#pragma once
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::passes {

enum class Numbers : uint8_t { same, rounding };  // does the pass keep every bit, or only the meaning

struct Pass {
  const char* name;
  ir::Graph (*run)(const ir::Graph&);
  Numbers numbers;
  bool before_elementwise_fusion;  // lm.inspect(...).optimized shows the graph after these
  const char* doc;                 // one sentence; why it stands here when it stands twice
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
// Runs the pipeline: times each pass, verifies after it ("after fuse_dense: ..."), hashes before and after, dumps when LAMINA_DUMP names
// a folder, skips what LAMINA_DISABLE names (comma separated), stops after LAMINA_PASS_LIMIT passes.
LAMINA_API Optimized optimize(const ir::Graph& g);
// For tests: which passes are off for this thread, besides LAMINA_DISABLE.
LAMINA_API void set_disabled_passes(std::vector<std::string> names);

}  // namespace lamina::passes
