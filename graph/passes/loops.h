// What the passes on loops and branches share: taking nodes and regions apart and putting them together.
#pragma once
#include "graph/ops/ops.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

// A cond, while_loop or scan as lists. Regions' inputs are carried, stacked (their slices), captures; the first region of a loop with a
// condition is the condition.
struct Loop {
  const ir::OpDef* op = nullptr;
  Value pred;                                     // cond
  std::vector<Value> carried, stacked, captures;  // of the old graph
  Value count;                                    // scan: not valid when it goes over all slices
  std::vector<Graph> regions;
  ops::ScanAttrs scan;
  int64_t maximum = -1;

  Loop(const Graph& g, int node);  // cond, while_loop or scan only
  static bool is_one(const Node& node) { return is(node, ops::def::cond) || is(node, ops::def::while_loop) || is(node, ops::def::scan); }
  const Graph& body() const { return regions.back(); }
  Graph& body() { return regions.back(); }
  size_t inputs() const { return carried.size() + stacked.size() + captures.size(); }
  // Adds the node to the new graph; returns its first result.
  Value add(Rewriter& to) const;
};

// The region with these of its inputs, in this order, and these outputs; nodes that no output needs are left out.
Graph select_region(const Graph& region, std::span<const size_t> inputs, std::span<const Value> outputs);

}  // namespace lamina::passes
