// Leaves of a batch: parts of neighbouring rows, as even as possible, the first ones the longer ones. Sums over the batch add a sum of
// each.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lamina::kernels {

inline constexpr int64_t kMostLeaves = 64;
inline constexpr size_t kMostWithLeaves = 120;  // inputs of a step and leaves: a kernel has room for so many operands

constexpr int64_t first_row_of_leaf(int64_t rows, int64_t leaves, int64_t leaf) {
  return leaf * (rows / leaves) + std::min(leaf, rows % leaves);
}

}  // namespace lamina::kernels
