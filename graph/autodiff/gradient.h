// Reverse-mode differentiation: Graph -> Graph.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::autodiff {

struct GradientRequest {
  std::span<const ir::Value> targets;
  std::span<const ir::Value> cotangents;  // one per target; not valid, or none at all: ones
  std::span<const ir::Value> sources;     // values to differentiate by; one result each
  int first_node = 0;                     // gradients flow through nodes from here on only
  // Nodes through which nothing flows (made while a tape was stopped, stop_gradient); may be empty.
  std::function<bool(int node)> blocks;
};
// Appends nodes to g and returns one gradient per source; not valid where no path connects them. Throws type for targets that are not
// floating point, invalid_argument naming the op and the user's line for an op on the path that has no gradient.
LAMINA_API std::vector<ir::Value> gradient(ir::Graph& g, const GradientRequest& request);
// What RegionTransforms::gradient promises (graph/ir/op.h).
LAMINA_API ir::GraphRef region_gradient(const ir::Graph& region, std::span<const uint8_t> wanted);

}  // namespace lamina::autodiff
