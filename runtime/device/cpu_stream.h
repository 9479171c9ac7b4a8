// CpuStream: an in-order queue of tasks on a CPU device. An inline stream (a device's default) runs a task on the caller's thread while its
// queue is empty. A queued one (created by the user) always hands tasks to its worker thread.
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
#include "runtime/core/limits.h"
#include "runtime/core/mutex.h"
#include "runtime/core/rank_of_thread.h"
#include "runtime/device/device.h"
#include "runtime/device/signal.h"

namespace lamina {

// The state of a CpuStream's event.
struct CpuEvent {
  Mutex mutex;
  Condition changed;
  uint64_t recorded = 0, reached = 0;  // number of record() calls: requested, and reached by the stream
  uint32_t process = 0;                // fork_count() at record(): a child never reaches the parent's work
  void reach(uint64_t ticket);
};

class CpuStream {
 public:
  struct Task {
    std::function<void()> run;
    std::string name;                           // of the instruction; "" for tasks that cannot fail
    bool always = false;                        // also after an error: events must be reached, memory must be freed
    HeldText* held = nullptr;                   // collects the submitter's text; set when queued
    std::shared_ptr<LimitState> limits;         // the submitter's; set when queued
    distributed::Communicator* rank = nullptr;  // the submitter's; set when queued
  };

  CpuStream(Device device, bool runs_inline);
  ~CpuStream();  // waits for all queued tasks
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  const Device device;
  // Whether the caller may run a task itself now.
  bool idle() const { return busy_.load(std::memory_order_acquire) == 0; }
  void submit(Task task);   // runs it now if inline and nothing is pending, otherwise queues it
  void enqueue(Task task);  // queues it, for tasks that would block the caller
  void synchronize();       // throws the first error since the last call
  void finish();            // waits, but leaves the error for synchronize()
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
  std::atomic<int> busy_{0};  // queued and running tasks; plus 1 if the stream is not inline
  std::atomic<int> pending_{0};
  Signal arrived_, finished_;
};

}  // namespace lamina
