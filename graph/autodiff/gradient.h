// Reverse-mode differentiation: Graph -> Graph.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::autodiff {

struct GradientRequest {
  std::span<const ir::Value> targets;
  std::span<const ir::Value> cotangents;  // one per target; invalid, or an empty list: ones
  std::span<const ir::Value> sources;     // differentiate with respect to these; one result each
  int first_node = 0;                     // gradients flow only through nodes from this one on
  // Nodes that stop the gradient (made while a tape was stopped, stop_gradient); may be empty.
  std::function<bool(int node)> blocks;
};
// Appends nodes to g and returns one gradient per source; invalid where no path connects source and targets. Throws type for targets that
// are not floating point, and invalid_argument with the op and the user's line for an op on the path that has no gradient.
LAMINA_API std::vector<ir::Value> gradient(ir::Graph& g, const GradientRequest& request);
// Implements RegionTransforms::gradient (graph/ir/op.h).
LAMINA_API ir::GraphRef region_gradient(const ir::Graph& region, std::span<const uint8_t> wanted);

}  // namespace lamina::autodiff
