// A random graph as a stack of models that differ a little, for vmap's transform.
#pragma once
#include "graph/autodiff/batch.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {

struct StackedModels {
  std::vector<RandomGraph> models;          // each alone
  RandomGraph together;                     // the batched graph, with stacked inputs and resources
  std::vector<uint8_t> outputs, resources;  // which of them have the model axis
};
// Random inputs and Variables get the model axis; Variables that are assigned, and generators, always do. Throws what batch() throws.
StackedModels stack_models(const RandomGraph& g, uint64_t seed, size_t models = 3);

Tensor stacked(const std::vector<Tensor>& parts);
Tensor part(const Tensor& all, size_t i);  // along the first axis

// Fused nodes are made by passes, after batching: their results become inputs.
RandomGraph without_fused(RandomGraph g);

}  // namespace lamina::tests
