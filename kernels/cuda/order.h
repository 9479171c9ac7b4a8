// Thrust's sort and running sum. Nothing in them waits for the GPU, so that they may be recorded in a CUDA graph.
#pragma once
#include <cstdint>

#include "runtime/device/stream.h"

namespace lamina::kernels::cuda {

// Brings keys into ascending order, and places with them; equal keys keep their order.
void sort_pairs(Stream& stream, uint32_t* keys, int64_t* places, int64_t count);
void sort_pairs(Stream& stream, uint64_t* keys, int64_t* places, int64_t count);
// values[i] becomes values[0] + ... + values[i], modulo 2^64. The sum within a row is the difference of two of them.
void add_up(Stream& stream, uint64_t* values, int64_t count);

}  // namespace lamina::kernels::cuda
