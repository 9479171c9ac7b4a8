// Making the region of a fused node: its members as a graph of their own.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "graph/passes/rewrite.h"

namespace lamina::passes {

struct Region {
  ir::GraphRef graph;
  std::vector<Value> inputs;   // of the old graph, after the given ones
  std::vector<Value> outputs;  // of the old graph
};

// `given` are the first inputs of the region; `members` in program order use them, each other, and others, which become inputs.
// Constants with one number in all elements go inside as scalars. Outputs: the given and members' results for which `wanted`.
Region make_region(const Graph& g, std::span<const Value> given, std::span<const int> members, const std::function<bool(Value)>& wanted);

}  // namespace lamina::passes
