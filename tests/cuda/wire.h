// The wire between ranks, on one card: a kernel beside the launch of one rank's step. It shows each value that the rank has announced as
// announced by all other ranks, a given time later, in windows of the same card.
#pragma once
#include "kernels/section/block_table.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cuda {

inline constexpr int kWireThreads = 128, kMostWireValues = 4 * kWireThreads;

struct WireLaunch {
  const section::BlockSum* sums = nullptr;  // of the step's plan, in device memory
  int values = 0, rank = 0;
  char* const* windows = nullptr;  // of each sum in turn, on rank 0, 1, ...
  unsigned launch = 0;             // the step's number
  unsigned long long nanoseconds = 0, most_nanoseconds = 0;
  unsigned* missing = nullptr;  // counts values that were not announced in most_nanoseconds; then the step's launch ends, too
};

void launch_wire(Stream& stream, const WireLaunch& w);

}  // namespace lamina::kernels::cuda
