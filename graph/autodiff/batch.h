// vmap on graphs: turns the graph of one model into the graph of a stack of models. Graph -> Graph.
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::autodiff {

struct BatchRequest {
  Dim size;                                 // how many models
  std::span<const uint8_t> inputs = {};     // per input: whether it gets the model axis, in front; empty: none does
  std::span<const uint8_t> resources = {};  // per resource: whether its Variable is stacked; empty: none is
  std::span<const uint8_t> outputs = {};    // per output: whether it must have the model axis; repeated if all models agree
  bool same_draws = false;                  // whether each model draws the numbers that it would draw alone: a gradient draws them again
};
struct BatchedGraph {
  ir::Graph graph;               // inputs, outputs and resources in g's order
  std::vector<uint8_t> outputs;  // per output: whether it has the model axis
};
// Values that depend on no batched input and no stacked Variable are computed once. A draw gives each model its own numbers. Throws
// invalid_argument at the user's line when a Variable that is not stacked is assigned one value per model, or when an op cannot be batched.
LAMINA_API BatchedGraph batch(const ir::Graph& g, const BatchRequest& request);

// Implements RegionTransforms::batch (graph/ir/op.h).
template <bool same_draws>
LAMINA_API ir::GraphRef batch_region(const ir::Graph& region, std::span<const uint8_t> batched_inputs, Dim size,
                                     std::vector<uint8_t>& batched_outputs);

}  // namespace lamina::autodiff
