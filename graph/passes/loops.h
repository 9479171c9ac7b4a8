// Takes loops and branches apart and puts them together again, for the passes on them.
#pragma once
#include "graph/ops/ops.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

// A cond, while_loop or scan as lists of values. A region's inputs are carried values, slices of stacked values, captures. A while_loop's
// first region is its condition.
struct Loop {
  const ir::OpDef* op = nullptr;
  Value pred;                                     // of a cond
  std::vector<Value> carried, stacked, captures;  // of the old graph
  Value count;                                    // of a scan; invalid when it covers all slices
  std::vector<Graph> regions;
  ops::ScanAttrs scan;
  int64_t maximum = -1;

  Loop(const Graph& g, int node);  // the node must be a cond, while_loop or scan
  static bool is_one(const Node& node) { return is(node, ops::def::cond) || is(node, ops::def::while_loop) || is(node, ops::def::scan); }
  const Graph& body() const { return regions.back(); }
  Graph& body() { return regions.back(); }
  size_t inputs() const { return carried.size() + stacked.size() + captures.size(); }
  // Adds the node to the new graph; returns its first result.
  Value add(Rewriter& to) const;
};

// The region with only these inputs, in this order, and these outputs. Nodes that no output needs are dropped.
Graph select_region(const Graph& region, std::span<const size_t> inputs, std::span<const Value> outputs);

}  // namespace lamina::passes
