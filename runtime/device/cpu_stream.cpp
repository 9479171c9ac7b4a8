#include "runtime/device/cpu_stream.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/device/worker_count.h"

namespace lamina {
namespace {

thread_local const CpuStream* served = nullptr;  // the stream whose worker this thread is

void run_named(const CpuStream::Task& task) {
  try {
    task.run();
  } catch (const Error& e) {
    if (task.name.empty()) throw;
    throw e.at("instruction " + task.name);
  }
}

}  // namespace

void CpuEvent::reach(uint64_t ticket) {
  std::lock_guard lock(mutex);
  reached = std::max(reached, ticket);
  changed.notify_all();
}

// All streams of the process, for fork: their locks are held during it, and the child, which has no workers, drops queued tasks.
struct AllStreams {
  Mutex mutex;
  std::vector<CpuStream*> streams;

  static AllStreams& get() {
    static AllStreams* all = [] {
      on_fork({[] { get().before(); }, [] { get().in_parent(); }, [] { get().in_child(); }});
      return new AllStreams;  // outlives every stream
    }();
    return *all;
  }
  void before() {
    mutex.lock();
    for (CpuStream* s : streams) s->lock_for_fork();
  }
  void in_parent() {
    for (CpuStream* s : streams) s->after_fork_in_parent();
    mutex.unlock();
  }
  void in_child() {
    for (CpuStream* s : streams) s->after_fork_in_child();
    mutex.unlock();
  }
};

CpuStream::CpuStream(Device d, bool runs_inline) : device(d), runs_inline_(runs_inline), busy_(runs_inline ? 0 : 1) {
  AllStreams& all = AllStreams::get();
  std::lock_guard lock(all.mutex);
  all.streams.push_back(this);
}

CpuStream::~CpuStream() {
  {
    AllStreams& all = AllStreams::get();
    std::lock_guard lock(all.mutex);
    std::erase(all.streams, this);
  }
  if (worker_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    arrived_.advance();
    worker_.join();
    count_worker(-1);
  }
}

void CpuStream::submit(Task task) {
  if (runs_inline_ && pending_.load(std::memory_order_acquire) == 0) {
    run_named(task);
  } else {
    enqueue(std::move(task));
  }
}

void CpuStream::enqueue(Task task) {
  task.held = held_text();
  task.limits = current_limits();
  task.rank = rank_of_thread();
  std::unique_lock lock(mutex_);
  if (!worker_.joinable()) {
    worker_ = std::thread([this] { serve(); });
    count_worker(1);
  }
  tasks_.push_back(std::move(task));  // may throw, so before counting it
  busy_.fetch_add(1);
  pending_.fetch_add(1);
  lock.unlock();
  arrived_.advance();
}

bool CpuStream::may_finish() const { return served != this; }

void CpuStream::serve() {
  served = this;
  for (;;) {
    uint32_t seen = arrived_.value();
    Task task;
    bool skip = false;
    {
      std::lock_guard lock(mutex_);
      if (tasks_.empty() && stop_) return;
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
        skip = error_ && !task.always;
      }
    }
    if (!task.run) {
      arrived_.wait_while(seen, may_spin());
      continue;
    }
    if (!skip) {
      std::exception_ptr error;
      try {
        const HoldTextWith hold(task.held);
        const LimitsOf limits(task.limits);
        rank_of_thread() = task.rank;
        run_named(task);
      } catch (...) {
        error = std::current_exception();
      }
      if (error) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = error;
      }
    }
    task = {};  // destroys captured objects before the stream counts as finished
    busy_.fetch_sub(1);
    pending_.fetch_sub(1);
    finished_.advance();
  }
}

void CpuStream::finish() {
  for (;;) {
    uint32_t seen = finished_.value();
    if (pending_.load(std::memory_order_acquire) == 0) break;
    finished_.wait_while(seen, may_spin());
  }
}

void CpuStream::synchronize() {
  finish();
  std::unique_lock lock(mutex_);
  std::exception_ptr error = std::exchange(error_, nullptr);
  lock.unlock();
  if (error) std::rethrow_exception(error);
}

void CpuStream::after_fork_in_child() {
  new (&worker_) std::thread();  // the parent's thread cannot be joined here
  busy_ = runs_inline_ ? 0 : 1;
  pending_ = 0;
  error_ = nullptr;
  stop_ = false;
  new (&tasks_) std::deque<Task>();  // queued tasks are the parent's, possibly in an inconsistent state
  mutex_.unlock();
}

}  // namespace lamina
