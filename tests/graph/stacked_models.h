// A random graph as a stack of slightly different models, to test vmap's transform.
#pragma once
#include "graph/autodiff/batch.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {

struct StackedModels {
  std::vector<RandomGraph> models;          // each alone
  RandomGraph together;                     // the batched graph, with stacked inputs and resources
  std::vector<uint8_t> outputs, resources;  // which of them have the model axis
};
// Random inputs and Variables get the model axis; assigned Variables and generators always do. Throws batch()'s errors.
StackedModels stack_models(const RandomGraph& g, uint64_t seed, size_t models = 3);

Tensor stacked(const std::vector<Tensor>& parts);
Tensor part(const Tensor& all, size_t i);  // along the first axis

// Passes make fused nodes after batching, so their results become inputs here.
RandomGraph without_fused(RandomGraph g);

}  // namespace lamina::tests
