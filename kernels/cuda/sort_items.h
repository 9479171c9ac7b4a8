// Items of a key and a place, brought into order: equal keys keep the order of their places.
#pragma once
#include <cstdint>

#include "kernels/cuda/element.h"

namespace lamina::kernels::cuda {

struct Item {
  uint64_t key;
  int64_t place;
};

inline int64_t padded_length(int64_t n) {
  int64_t padded = 1;
  while (padded < n) padded *= 2;
  return padded;
}

// Sorts each of `rows` rows of `padded` items (a power of two), in place.
void sort_items(Stream& stream, Item* items, int64_t rows, int64_t padded);

}  // namespace lamina::kernels::cuda
