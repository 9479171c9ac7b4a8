// A fused group: nodes that move into the region of one fused node.
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

// `given` are the first inputs. `members`, in program order, use them, each other, and other values, which become inputs. Uniform constants
// move inside as scalars. Outputs: the given values and members' results for which `wanted` holds.
FusedGroup make_group(const Graph& g, std::span<const Value> given, std::span<const int> members, const std::function<bool(Value)>& wanted);

}  // namespace lamina::passes
