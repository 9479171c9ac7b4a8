// ThreadPool: the threads of one CPU device. The caller is thread 0. Workers spin for at most 50 us, then sleep; they never spin if there
// are more of them than cores. If other processes keep a core busy, runs use one thread for a while (contention.h). Rebuilt after fork.
#pragma once
#include "runtime/core/export.h"
#include "runtime/device/device.h"
#include "runtime/device/signal.h"

namespace lamina {

class LAMINA_API ThreadPool {
 public:
  // Passed to a job with its thread's number: a barrier for all threads of the run.
  class Barrier {
   public:
    virtual void wait() = 0;
    virtual void wait_until(Signal& signal, uint32_t value) = 0;  // until another thread of the run has advanced it so far
    // Thread 0, once: by plan the threads wait for each other, in all for `share` times the run's time. That is no stall.
    virtual void expect_waits(double share) = 0;

   protected:
    ~Barrier() = default;
  };
  struct NoBarrier;  // for a thread that runs alone
  using Job = void (*)(void* context, int thread, int threads, Barrier& barrier);

  static ThreadPool& of(Device device);
  static void keep_workers(bool on);  // for tests: always use all threads
  // Runs job on `threads` threads (at most config::threads()) and returns when all have finished. Inside a job, or when another caller uses
  // the pool, it runs on one thread: results do not depend on the number. Rethrows the first exception of a job (which must not leave other
  // threads waiting at a barrier).
  virtual void run(int threads, Job job, void* context) = 0;
  virtual ~ThreadPool() = default;
};
struct ThreadPool::NoBarrier final : Barrier {
  void wait() override {}
  void wait_until(Signal&, uint32_t) override {}
  void expect_waits(double) override {}
};

}  // namespace lamina
