// Chains: products that a block runs as one, each on the result of the one before (kernels/cuda/section_chain.h). A chain's weights, biases
// and masks are read ahead of their product, at any time after the chain began. A block with more rows or models than it takes at once
// runs the whole chain for the first of them before the next.
#pragma once
#include <vector>

#include "kernels/section/flatten.h"

namespace lamina::section {

// Why the product cannot be the next of the chain; null if it can. steps: of the plan; chain: numbers of its products so far.
const char* why_not_next(const Flat& flat, const BlockStep* steps, const std::vector<int>& chain, int product);

}  // namespace lamina::section
