// Leaves of a batch: parts of neighbouring rows, as even as possible, the first ones the longer ones. Sums over the batch add a sum of
// each.
#pragma once
#include <algorithm>
#include <cstdint>

namespace lamina::kernels {

constexpr int64_t first_row_of_leaf(int64_t rows, int64_t leaves, int64_t leaf) {
  return leaf * (rows / leaves) + std::min(leaf, rows % leaves);
}

}  // namespace lamina::kernels
