// CpuStream: the order of work on a CPU device. An inline stream (a device's default one) runs a task on the caller's thread as
// long as nothing waits in its queue; a queued one (created) always hands tasks to its worker thread, first in first out.
#pragma once
#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/held_text.h"
#include "runtime/core/mutex.h"
#include "runtime/device/device.h"
#include "runtime/device/signal.h"

namespace lamina {

// What CpuStream's events point to.
struct CpuEvent {
  Mutex mutex;
  Condition changed;
  uint64_t recorded = 0, reached = 0;  // counts of record(): asked for, and passed by the stream
  uint32_t process = 0;                // fork_count() when it was recorded: a parent's work is never reached in the child
  void reach(uint64_t ticket);
};

class CpuStream {
 public:
  struct Task {
    std::function<void()> run;
    std::string name;          // of the instruction; "" for what cannot fail
    bool always = false;       // also after an error: events must be reached, memory must be freed
    HeldText* held = nullptr;  // where the text of its submitter waits; set when it is queued
  };

  CpuStream(Device device, bool runs_inline);
  ~CpuStream();  // after everything queued has run
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  const Device device;
  // True when a task may simply be run by the caller now.
  bool idle() const { return busy_.load(std::memory_order_acquire) == 0; }
  void submit(Task task);   // runs it now when the stream is inline and nothing is pending, otherwise queues it
  void enqueue(Task task);  // queues it: for what would make the caller wait
  void synchronize();       // throws the first error since the last call
  void finish();            // the same wait; the error stays for synchronize()
  bool may_finish() const;  // false on its own worker

 private:
  friend struct AllStreams;
  void serve();
  void lock_for_fork() { mutex_.lock(); }
  void after_fork_in_parent() { mutex_.unlock(); }
  void after_fork_in_child();

  const bool runs_inline_;
  Mutex mutex_;
  std::deque<Task> tasks_;
  std::thread worker_;
  bool stop_ = false;
  std::exception_ptr error_;
  std::atomic<int> busy_{0};  // tasks that are queued or running, and 1 for a stream that is not inline
  std::atomic<int> pending_{0};
  Signal arrived_, finished_;
};

}  // namespace lamina
