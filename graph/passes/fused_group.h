// A fused group: nodes that become one fused node, whose region has them.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "graph/passes/rewrite.h"

namespace lamina::passes {

struct FusedGroup {
  ir::GraphRef graph;          // the region
  std::vector<Value> inputs;   // of the old graph, after the given ones
  std::vector<Value> outputs;  // of the old graph
};

// `given` are the first inputs; `members` in program order use them, each other, and others, which become inputs.
// Constants with one number in all elements go inside as scalars. Outputs: the given and members' results for which `wanted`.
FusedGroup make_group(const Graph& g, std::span<const Value> given, std::span<const int> members, const std::function<bool(Value)>& wanted);

}  // namespace lamina::passes
