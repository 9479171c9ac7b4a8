// The emulation of GPU threads (kernels/cuda/device_host.h), as tests and the race checker see it.
#pragma once
#include <functional>
#include <memory>
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

struct Running {  // a launch
  LaunchShape shape;
  std::function<void()> thread;
  std::string name;
  unsigned first_block = 0;  // among those of launches that run together
  unsigned alive = 0;        // blocks
  Running* next = nullptr;   // begins when this one has ended
  unsigned blocks() const { return shape.grid.x * shape.grid.y; }
};
// The launches that `start` makes, which are not run.
std::vector<Running> kept_launches(const std::function<void()>& start);
// Launches on several GPUs, of each in order. On one GPU, the blocks of a launch that is not cooperative run one after the other.
void run_all(std::vector<std::vector<Running>>& gpus);

// Launches of several host threads, one of each, as run_together() runs them: a thread's call returns when all have ended, and throws what
// any of them did.
class Together {
 public:
  explicit Together(int threads);
  ~Together();
  void run(const std::function<void()>& start);  // throws Failure after a minute without the others

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace lamina::kernels::cuda::emulation
