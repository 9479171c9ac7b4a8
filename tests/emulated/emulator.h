// The emulation of GPU threads (kernels/cuda/device_host.h), as tests and the race checker see it.
#pragma once
#include <string>
#include <vector>

#include "kernels/cuda/device.h"

namespace lamina::kernels::cuda::emulation {

// Gets all events. Threads are numbered across the launch: block * threads + thread.
struct Observer {
  virtual ~Observer() = default;
  virtual void launch_begins(unsigned blocks, unsigned threads) = 0;
  virtual void launch_ends() = 0;
  // Memory becomes uninitialised, as a block's shared memory is at its start.
  virtual void fresh(const void* memory, size_t bytes, unsigned block) = 0;
  virtual void block_barrier(unsigned block) = 0;
  virtual void block_ends(unsigned block, const void* launch) = 0;
  virtual void block_follows(unsigned block, const void* launch) = 0;  // that has ended
  virtual void warp_barrier(unsigned block, unsigned warp) = 0;
  virtual void some_barrier(unsigned block, const std::vector<unsigned>& warps) = 0;
  virtual void atomic(const void* address, size_t bytes, const Where& where) = 0;
  virtual void acquire(const void* address) = 0;
  virtual void release(const void* address) = 0;
  virtual void access(const void* address, size_t bytes, bool write, const Where& where) = 0;  // of copy_async
};
void set_observer(Observer* observer);

struct Current {
  bool running = false;  // a thread of a launch is running
  unsigned block = 0, thread = 0;
  const char *stack_begin = nullptr, *stack_end = nullptr;
};
const Current& current();
// Ends the launch when the running thread returns to the emulation.
[[noreturn]] void fail(const std::string& why);

}  // namespace lamina::kernels::cuda::emulation
