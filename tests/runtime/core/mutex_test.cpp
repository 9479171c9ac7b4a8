#include "runtime/core/mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace lamina {
namespace {

using std::chrono::milliseconds;

// The exit status of a child that runs f; -1 if it hangs.
template <class F>
int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  for (int i = 0; i < 1000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    std::this_thread::sleep_for(milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

// Threads that run f until this is destroyed.
class Workers {
 public:
  template <class F>
  Workers(int n, F f) {
    for (int i = 0; i < n; ++i)
      threads_.emplace_back([this, f] {
        while (!stop_) f();
      });
  }
  ~Workers() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Held long enough that several threads wait at once.
TEST(Mutex, ExcludesOtherThreads) {
  Mutex mutex;
  int64_t count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        const std::lock_guard lock(mutex);
        ++count;
        for (int k = 0; k < 50; ++k) std::atomic_signal_fence(std::memory_order_seq_cst);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(count, 80000);
}

TEST(RecursiveMutex, CanBeLockedAgainOnlyByItsHolder) {
  RecursiveMutex mutex;
  int64_t count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const std::lock_guard outer(mutex);
        const std::lock_guard inner(mutex);
        ++count;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(count, 20000);
}

TEST(Condition, WakesWaitingThreads) {
  Mutex mutex;
  Condition changed;
  int turn = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return turn % 3 == t; });
        ++turn;
        changed.notify_all();
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(turn, 900);
}

// The two numbers are equal whenever the lock is free, in the child too.
TEST(Mutex, IsFreeInAChildAndItsDataIsConsistent) {
  Mutex mutex;
  int64_t a = 0, b = 0;
  const Workers workers(3, [&] {
    const std::lock_guard lock(mutex);
    ++a;
    for (int i = 0; i < 50; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    ++b;
  });
  for (int i = 0; i < 100; ++i) {
    const int result = in_child([&] {
      const std::lock_guard lock(mutex);
      return a == b ? 0 : 1;
    });
    ASSERT_EQ(result, 0) << "fork " << i;
  }
}

TEST(Mutex, HeldForLongIsFreeInAChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support threads in a forked child";
#endif
  Mutex mutex, inner;
  RecursiveMutex recursive;
  std::atomic<bool> held{false}, stop{false};
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    const std::lock_guard again(recursive);
    held = true;
    while (!stop) std::this_thread::sleep_for(milliseconds(1));
  });
  while (!held) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  const uint32_t before = fork_count();
  const int result = in_child([&] {
    const std::lock_guard one(mutex);
    const std::lock_guard two(recursive);
    const std::lock_guard three(inner);
    std::atomic<int> done{0};
    std::thread other([&] {  // a new thread must not be mistaken for one of the parent's
      std::thread([&] { done = 1; }).join();
    });
    other.join();
    return fork_count() == before + 1 && done == 1 ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(5000));
  stop = true;
  holder.join();
  const std::lock_guard free_again(mutex);
}

TEST(Mutex, ForkWhileThisThreadIsInsideLeavesItUsable) {
  Mutex mutex;
  mutex.lock();
  const int result = in_child([&] {
    mutex.unlock();
    const std::lock_guard lock(mutex);
    return 0;
  });
  EXPECT_EQ(result, 0);
  mutex.unlock();
  const std::lock_guard lock(mutex);
}

}  // namespace
}  // namespace lamina
