// ThreadPool: the threads of one CPU device. The caller is thread 0; the others spin at most 50 us for work, then sleep, and
// never spin when the process has more of them than cores. Where other processes keep a core busy, runs take one thread for a while
// (contention.h). Rebuilt after fork.
#pragma once
#include "runtime/core/export.h"
#include "runtime/device/device.h"

namespace lamina {

class LAMINA_API ThreadPool {
 public:
  // A job gets its thread's number and a barrier that all threads of this run must reach.
  class Barrier {
   public:
    virtual void wait() = 0;

   protected:
    ~Barrier() = default;
  };
  struct NoBarrier;  // of a thread that works alone
  using Job = void (*)(void* context, int thread, int threads, Barrier& barrier);

  static ThreadPool& of(Device device);
  static void keep_workers(bool on);  // for tests: runs take all their threads, whatever other processes do
  // Runs job on `threads` threads (at most config::threads()) and returns when all have finished. Inside a job, or when the
  // pool is busy with another caller, it runs with one thread: the results do not depend on the number. A job that throws:
  // the first exception is rethrown here (the job must not leave others waiting at a barrier).
  virtual void run(int threads, Job job, void* context) = 0;
  virtual ~ThreadPool() = default;
};
struct ThreadPool::NoBarrier final : Barrier {
  void wait() override {}
};

}  // namespace lamina
