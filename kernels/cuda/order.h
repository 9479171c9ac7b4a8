// Thrust's sort and prefix sum. They never wait for the GPU, so they can be captured in a CUDA graph.
#pragma once
#include <cstdint>

#include "runtime/device/stream.h"

namespace lamina::kernels::cuda {

// Sorts keys in ascending order and moves `places` along; stable.
void sort_pairs(Stream& stream, uint32_t* keys, int64_t* places, int64_t count);
void sort_pairs(Stream& stream, uint64_t* keys, int64_t* places, int64_t count);
// Inclusive prefix sums modulo 2^64, in place. The sum within a row is the difference of two of them.
void add_up(Stream& stream, uint64_t* values, int64_t count);

}  // namespace lamina::kernels::cuda
