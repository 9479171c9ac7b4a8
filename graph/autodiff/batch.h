// What vmap does: the graph of one model becomes the graph of a stack of models. Graph -> Graph.
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::autodiff {

struct BatchRequest {
  Dim size;                                 // how many models
  std::span<const uint8_t> inputs = {};     // per input: whether it gets the model axis, in front; none given: no input does
  std::span<const uint8_t> resources = {};  // per resource: whether its Variable is stacked; none given: no Variable is
  std::span<const uint8_t> outputs = {};    // per output: whether it must have the model axis, repeated if it does not differ
};
struct BatchedGraph {
  ir::Graph graph;               // inputs, outputs and resources in g's order
  std::vector<uint8_t> outputs;  // per output: whether it has the model axis
};
// What does not depend on a batched input or a stacked Variable is computed once. A draw gives every model numbers of its own. Throws
// invalid_argument, placed at the user's line, when a Variable that is not stacked is assigned a value per model, or an op cannot be
// batched.
LAMINA_API BatchedGraph batch(const ir::Graph& g, const BatchRequest& request);

// RegionTransforms::batch.
LAMINA_API ir::GraphRef batch_region(const ir::Graph& region, std::span<const uint8_t> batched_inputs, Dim size,
                                     std::vector<uint8_t>& batched_outputs);

}  // namespace lamina::autodiff
