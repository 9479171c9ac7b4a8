// What tests and the race checker see of the emulation of GPU threads (kernels/cuda/device_host.h).
#pragma once
#include <string>
#include <vector>

#include "kernels/cuda/device.h"

namespace lamina::kernels::cuda::emulation {

// Who is told what happens. Threads are numbered through the launch: block * threads + thread.
struct Observer {
  virtual ~Observer() = default;
  virtual void launch_begins(unsigned blocks, unsigned threads) = 0;
  virtual void launch_ends() = 0;
  // Memory that is as if never written: a block's shared memory as it starts.
  virtual void fresh(const void* memory, size_t bytes, unsigned block) = 0;
  virtual void block_barrier(unsigned block) = 0;
  virtual void cluster_barrier() = 0;
  virtual void warp_barrier(unsigned block, unsigned warp) = 0;
  virtual void atomic(const void* address, size_t bytes, const Where& where) = 0;
  virtual void acquire(const void* address) = 0;
  virtual void release(const void* address) = 0;
  virtual void access(const void* address, size_t bytes, bool write, const Where& where) = 0;  // of copy_async
};
void set_observer(Observer* observer);

struct Current {
  bool running = false;  // a thread of a launch runs
  unsigned block = 0, thread = 0;
  const char *stack_begin = nullptr, *stack_end = nullptr;
};
const Current& current();
// Ends the launch as soon as the thread that runs comes back to the emulation.
[[noreturn]] void fail(const std::string& why);

}  // namespace lamina::kernels::cuda::emulation
