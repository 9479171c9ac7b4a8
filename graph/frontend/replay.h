// Runs a graph eagerly, op by op, so that tapes around the call record it. Internal to this folder.
#pragma once
#include <span>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"

namespace lamina {

// Returns g's outputs. g's lengths must be known; inputs: one per input of g; variables: one per resource.
std::vector<Tensor> replay(const ir::Graph& g, std::span<const Tensor> inputs, std::span<const Variable> variables);

}  // namespace lamina
