#include "runtime/device/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/core/config.h"
#include "runtime/core/cores.h"
#include "runtime/core/mutex.h"
#include "runtime/device/contention.h"
#include "runtime/device/signal.h"
#include "runtime/device/worker_count.h"

namespace lamina {
namespace {

constexpr int kMaxDevices = 1024;

// The phase changes when the last thread arrives. A thread cannot arrive for the next phase before it has seen this one.
class PhaseBarrier final : public ThreadPool::Barrier {
 public:
  void start(uint32_t threads, bool spin) {
    threads_ = threads;
    spin_ = spin;
    slept_.store(0, std::memory_order_relaxed);
    expected_ = 0;
  }
  void wait() override {
    uint32_t phase = phase_.value();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.advance();
    } else if (const auto slept = phase_.wait_while(phase, spin_); slept.count() > 0) {
      slept_.fetch_add(slept.count(), std::memory_order_relaxed);
    }
  }
  void wait_until(Signal& signal, uint32_t value) override {
    for (uint32_t seen = signal.value(); seen < value; seen = signal.value())
      if (const auto slept = signal.wait_while(seen, spin_); slept.count() > 0) slept_.fetch_add(slept.count(), std::memory_order_relaxed);
  }
  void expect_waits(double share) override { expected_ = share; }
  double expected() const { return expected_; }
  // Summed over all threads since start().
  std::chrono::nanoseconds slept() const { return std::chrono::nanoseconds(slept_.load(std::memory_order_relaxed)); }

 private:
  uint32_t threads_ = 1;
  bool spin_ = false;
  double expected_ = 0;  // of thread 0, which reads it
  std::atomic<int64_t> slept_{0};
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) Signal phase_;
};

thread_local bool inside_job = false;
std::atomic<bool> workers_kept{false};

class Pool final : public ThreadPool {
 public:
  void run(int threads, Job job, void* context) override {
    threads = std::min(threads, config::threads());
    if (threads > 1 && !inside_job && !busy_.exchange(true, std::memory_order_acquire)) {
      if (const auto now = std::chrono::steady_clock::now();
          workers_kept.load(std::memory_order_relaxed) || contention_.allows_workers(now))
        return run_on_workers(threads, job, context, now);
      busy_.store(false, std::memory_order_release);
    }
    NoBarrier barrier;
    job(context, 0, 1, barrier);
  }

 private:
  struct alignas(64) Worker {
    Signal tickets;  // incremented for each job of this worker
    std::thread thread;
  };

  void run_on_workers(int threads, Job job, void* context, Contention::Time began) {
    threads = std::min(threads, 1 + grow(threads - 1));
    job_ = job;
    context_ = context;
    threads_ = threads;
    spin_ = may_spin();
    error_ = nullptr;
    failed_.store(false, std::memory_order_relaxed);
    barrier_.start(uint32_t(threads), spin_);
    running_.store(threads - 1, std::memory_order_relaxed);
    for (int i = 0; i < threads - 1; ++i) workers_[size_t(i)]->tickets.advance();
    inside_job = true;
    work(0);
    inside_job = false;
    Contention::Duration slept{0};
    for (;;) {
      uint32_t seen = done_.value();
      if (running_.load(std::memory_order_acquire) == 0) break;
      slept += done_.wait_while(seen, spin_);
    }
    const auto now = std::chrono::steady_clock::now();
    // With fewer cores than threads, threads wait for each other anyway, as requested.
    if (threads <= cores().usable()) {
      const auto expected = std::chrono::duration_cast<Contention::Duration>(barrier_.expected() * (now - began));
      contention_.record(now, now - began, std::max(Contention::Duration(0), slept + barrier_.slept() - expected), threads);
    }
    std::exception_ptr error = std::move(error_);
    busy_.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
  }

  void work(int thread) {
    try {
      job_(context_, thread, threads_, barrier_);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  // Starts workers up to `wanted`; returns how many there are, fewer if the system has no more threads or memory.
  int grow(int wanted) {
    while (int(workers_.size()) < wanted) {
      try {
        auto worker = std::make_unique<Worker>();
        workers_.reserve(size_t(wanted));  // nothing may fail once the thread runs
        worker->thread = std::thread([this, w = worker.get(), number = int(workers_.size()) + 1] { serve(*w, number); });
        count_worker(1);
        workers_.push_back(std::move(worker));
      } catch (const std::system_error&) {
        break;
      } catch (const std::bad_alloc&) {
        break;
      }
    }
    return int(workers_.size());
  }

  void serve(Worker& self, int number) {
    inside_job = true;
    for (uint32_t seen = 0;; ++seen) {
      self.tickets.wait_while(seen, may_spin());
      work(number);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.advance();
    }
  }

  std::atomic<bool> busy_{false};
  std::vector<std::unique_ptr<Worker>> workers_;  // changed only by the holder of busy_
  Job job_ = nullptr;
  void* context_ = nullptr;
  int threads_ = 1;
  bool spin_ = false;
  std::exception_ptr error_;
  std::atomic<bool> failed_{false};
  PhaseBarrier barrier_;
  Contention contention_;  // used by the holder of busy_
  alignas(64) std::atomic<int> running_{0};
  alignas(64) Signal done_;
};

std::atomic<Pool*> pools[kMaxDevices];

// A child process has none of its parent's workers, so it gets new pools. The old ones are abandoned, because their state may be
// inconsistent.
void forget_pools() {
  for (auto& pool : pools) pool.store(nullptr, std::memory_order_relaxed);
  inside_job = false;
}

}  // namespace

void ThreadPool::keep_workers(bool on) { workers_kept.store(on, std::memory_order_relaxed); }

ThreadPool& ThreadPool::of(Device device) {
  auto& slot = pools[size_t(std::clamp<int>(device.index, 0, kMaxDevices - 1))];
  Pool* pool = slot.load(std::memory_order_acquire);
  if (!pool) {
    static const bool registered = (on_fork({.in_child = forget_pools}), true);
    (void)registered;
    auto fresh = std::make_unique<Pool>();  // never deleted: its workers run until the process ends
    if (slot.compare_exchange_strong(pool, fresh.get(), std::memory_order_acq_rel)) pool = fresh.release();
  }
  return *pool;
}

}  // namespace lamina
