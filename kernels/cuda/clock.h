// nanoseconds(): a clock shared by all blocks; on some GPUs it advances in steps of a microsecond or more. cycles(): the clock of the
// block's multiprocessor.
#pragma once
#include "kernels/cuda/device.h"

namespace lamina::kernels::cuda {

#if defined(__CUDACC__)
LAMINA_DEVICE unsigned long long nanoseconds() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
LAMINA_DEVICE unsigned long long cycles() { return (unsigned long long)clock64(); }
#else
namespace emulation {
// The clock advances by one step per read. One clock for the program and the libraries that it loads.
[[gnu::visibility("default")]] inline unsigned long long clock_now = 0, clock_step = 0, cycles_now = 0;
}  // namespace emulation
LAMINA_UNSEEN inline unsigned long long nanoseconds() { return emulation::clock_now += emulation::clock_step; }
LAMINA_UNSEEN inline unsigned long long cycles() { return ++emulation::cycles_now; }
#endif

}  // namespace lamina::kernels::cuda
