// Mutex, RecursiveMutex and Condition: the locks of the project. A lock that another thread holds during a fork would stay held in the
// child for ever. So a fork waits until no other thread is inside of a lock, and lets none in meanwhile. After a time limit it goes on:
// what is held then is free in the child.
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
  std::atomic<uint32_t> state_{0};  // the fork count of its last use, times four; plus 1 while it is held, 2 while others wait for it
};

// A thread, for as long as it lives. In a child process the parent's other threads are gone, and no new thread has their tokens.
using ThreadToken = const void*;
LAMINA_API ThreadToken this_thread();
LAMINA_API bool is_gone(ThreadToken thread);

// A mutex that a thread may lock again while it holds it.
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
  void wait(std::unique_lock<Mutex>& lock);  // may return early
  template <class Done>
  void wait(std::unique_lock<Mutex>& lock, Done done) {
    while (!done()) wait(lock);
  }
  void notify_all();

 private:
  std::atomic<uint32_t> changes_{0};
};

// How many forks lie between the first process and this one.
LAMINA_API uint32_t fork_count();

// What else a fork has to do; each may be null. `before` runs in the parent when no other thread is inside of a lock.
struct ForkHandlers {
  void (*before)() = nullptr;
  void (*in_parent)() = nullptr;
  void (*in_child)() = nullptr;
};
LAMINA_API void on_fork(ForkHandlers handlers);

}  // namespace lamina
