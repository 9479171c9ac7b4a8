// Mutex, RecursiveMutex and Condition: the project's locks, safe across fork. A lock held by another thread during a fork would never be
// released in the child. A fork therefore waits until no other thread holds a lock, and blocks new holders meanwhile. After a time limit it
// goes on, and locks still held are free in the child.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>  // lock_guard, unique_lock

#include "runtime/core/export.h"

namespace lamina {

class LAMINA_API Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock();
  void unlock();

 private:
  std::atomic<uint32_t> state_{0};  // 4 * (fork count at the last use), plus 1 while held, plus 2 while others wait
};

// Identifies a thread while it lives. In a child process, tokens of the parent's other threads are never reused.
using ThreadToken = const void*;
LAMINA_API ThreadToken this_thread();
LAMINA_API bool is_gone(ThreadToken thread);

// A mutex that its holder may lock again.
class LAMINA_API RecursiveMutex {
 public:
  RecursiveMutex() = default;
  RecursiveMutex(const RecursiveMutex&) = delete;
  RecursiveMutex& operator=(const RecursiveMutex&) = delete;
  void lock();
  void unlock();

 private:
  Mutex mutex_;
  std::atomic<ThreadToken> owner_{nullptr};
  int depth_ = 0;
};

class LAMINA_API Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;
  void wait(std::unique_lock<Mutex>& lock);  // spurious wakeups are possible
  template <class Done>
  void wait(std::unique_lock<Mutex>& lock, Done done) {
    while (!done()) wait(lock);
  }
  void notify_all();

 private:
  std::atomic<uint32_t> changes_{0};
};

// Number of forks from the first process to this one.
LAMINA_API uint32_t fork_count();

// Additional actions on fork; each may be null. `before` runs in the parent when no other thread holds a lock.
struct ForkHandlers {
  void (*before)() = nullptr;
  void (*in_parent)() = nullptr;
  void (*in_child)() = nullptr;
};
LAMINA_API void on_fork(ForkHandlers handlers);

}  // namespace lamina
