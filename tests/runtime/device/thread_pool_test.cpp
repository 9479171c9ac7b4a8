#include "runtime/device/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "runtime/core/config.h"
#include "runtime/device/contention.h"

namespace lamina {
namespace {

class Pool : public testing::Test {
 protected:
  void SetUp() override { ThreadPool::keep_workers(true); }
  void TearDown() override {
    config::set_threads(threads_);
    ThreadPool::keep_workers(false);
  }
  const int threads_ = config::threads();
};

// The number of threads that took part; each number exactly once.
struct Roll {
  std::atomic<int> seen[64] = {};
  std::atomic<int> threads{0};
  static void job(void* context, int thread, int threads, ThreadPool::Barrier&) {
    auto& roll = *static_cast<Roll*>(context);
    ++roll.seen[thread];
    roll.threads = threads;
  }
};

TEST_F(Pool, RunsEachThreadOnce) {
  for (int threads : {1, 2, 3, 7}) {
    config::set_threads(threads);
    for (int repeat = 0; repeat < 50; ++repeat) {
      Roll roll;
      ThreadPool::of({}).run(threads, Roll::job, &roll);
      EXPECT_EQ(roll.threads, threads);
      for (int i = 0; i < threads; ++i) ASSERT_EQ(roll.seen[i], 1);
    }
  }
}

TEST_F(Pool, UsesAtMostTheConfiguredThreads) {
  config::set_threads(2);
  Roll roll;
  ThreadPool::of({}).run(50, Roll::job, &roll);
  EXPECT_EQ(roll.threads, 2);
}

TEST_F(Pool, UsesOnlyTheRequestedThreads) {
  config::set_threads(5);
  for (int threads : {5, 2, 4, 1, 5}) {
    Roll roll;
    ThreadPool::of({}).run(threads, Roll::job, &roll);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(roll.seen[i], i < threads);
  }
}

TEST_F(Pool, CallerIsThreadZero) {
  config::set_threads(3);
  struct {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> good{true};
  } c;
  auto job = [](void* context, int thread, int, ThreadPool::Barrier&) {
    auto* shared = static_cast<decltype(c)*>(context);
    if ((std::this_thread::get_id() == shared->caller) != (thread == 0)) shared->good = false;
  };
  ThreadPool::of({}).run(3, job, &c);
  EXPECT_TRUE(c.good);
}

TEST_F(Pool, BarrierHoldsEveryThreadUntilAllHaveCome) {
  for (int threads : {2, 3, 7}) {
    config::set_threads(threads);
    struct Context {
      int written[64] = {};  // plain memory: the barrier orders it
      std::atomic<bool> good{true};
    } c;
    ThreadPool::of({}).run(
        threads,
        [](void* context, int thread, int count, ThreadPool::Barrier& barrier) {
          auto& shared = *static_cast<Context*>(context);
          for (int round = 1; round <= 200; ++round) {
            shared.written[thread] = round;
            barrier.wait();
            for (int i = 0; i < count; ++i)
              if (shared.written[i] != round) shared.good = false;
            barrier.wait();
          }
        },
        &c);
    EXPECT_TRUE(c.good) << threads;
  }
}

TEST_F(Pool, RethrowsTheFirstExceptionAndStaysUsable) {
  config::set_threads(3);
  for (int thrower : {0, 2}) {
    EXPECT_THROW(ThreadPool::of({}).run(
                     3,
                     [](void* who, int thread, int, ThreadPool::Barrier&) {
                       if (thread == *static_cast<int*>(who)) throw std::runtime_error("planted");
                     },
                     &thrower),
                 std::runtime_error);
    Roll roll;
    ThreadPool::of({}).run(3, Roll::job, &roll);
    EXPECT_EQ(roll.threads, 3);
  }
}

TEST_F(Pool, RunsAJobInsideAJobOnOneThread) {
  config::set_threads(3);
  std::atomic<int> inner{0};
  ThreadPool::of({}).run(
      3,
      [](void* context, int, int, ThreadPool::Barrier&) {
        ThreadPool::of({}).run(
            3,
            [](void* sum, int, int threads, ThreadPool::Barrier& barrier) {
              barrier.wait();
              *static_cast<std::atomic<int>*>(sum) += threads;
            },
            context);
      },
      &inner);
  EXPECT_EQ(inner, 3);  // three times one thread
}

TEST_F(Pool, ServesManyCallersAtOnce) {
  config::set_threads(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        struct Context {
          std::atomic<int> parts{0}, threads{0};
        } c;
        ThreadPool::of({}).run(
            2,
            [](void* context, int, int threads, ThreadPool::Barrier& barrier) {
              auto& shared = *static_cast<Context*>(context);
              shared.threads = threads;
              ++shared.parts;
              barrier.wait();
            },
            &c);
        total += c.parts == c.threads;
      }
    });
  for (auto& t : callers) t.join();
  EXPECT_EQ(total, 800);
}

TEST_F(Pool, SleepsWhenThereIsNothingToDo) {
  config::set_threads(4);
  Roll roll;
  ThreadPool::of({}).run(4, Roll::job, &roll);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used = double(after.tv_sec - before.tv_sec) + double(after.tv_nsec - before.tv_nsec) * 1e-9;
  EXPECT_LT(used, 0.1) << "seconds of processor time in 0.2 idle seconds";
}

TEST_F(Pool, IsRebuiltAfterFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support threads in a forked child";
#endif
  config::set_threads(3);
  Roll roll;
  ThreadPool::of({}).run(3, Roll::job, &roll);
  const pid_t child = fork();
  if (child == 0) {
    Roll again;
    ThreadPool::of({}).run(3, Roll::job, &again);
    _exit(again.threads == 3 && again.seen[2] == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  Roll after;
  ThreadPool::of({}).run(3, Roll::job, &after);
  EXPECT_EQ(after.threads, 3);
}

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Contention, PausesAfterTwoStoppedRunsInARow) {
  Contention c;
  Contention::Time now{};
  c.record(now, microseconds(200), microseconds(10), 2);
  c.record(now, milliseconds(4), milliseconds(3), 2);
  c.record(now, microseconds(200), microseconds(10), 2);
  c.record(now, milliseconds(4), milliseconds(3), 2);
  EXPECT_TRUE(c.allows_workers(now)) << "single stopped runs happen on a quiet machine";
  c.record(now, milliseconds(4), milliseconds(3), 2);
  EXPECT_FALSE(c.allows_workers(now + milliseconds(3)));
  EXPECT_TRUE(c.allows_workers(now + milliseconds(4)));
}

TEST(Contention, PausesGrowTo200MillisecondsAndResetAfter32GoodRuns) {
  Contention c;
  Contention::Time now{};
  c.record(now, milliseconds(4), milliseconds(3), 2);
  for (int64_t pause : {4, 8, 16, 32, 64, 128, 200, 200}) {
    c.record(now, milliseconds(4), milliseconds(3), 2);
    EXPECT_FALSE(c.allows_workers(now + milliseconds(pause - 1)));
    now += milliseconds(pause);
    EXPECT_TRUE(c.allows_workers(now));
  }
  for (int run = 0; run < 32; ++run) c.record(now, microseconds(200), microseconds(0), 2);
  c.record(now, milliseconds(4), milliseconds(3), 2);
  EXPECT_TRUE(c.allows_workers(now));
}

TEST(Contention, WakingTheWorkersAfterAPauseIsNoStall) {
  Contention c;
  Contention::Time now{};
  for (int run = 0; run < 2; ++run) c.record(now, milliseconds(4), milliseconds(3), 2);
  now += milliseconds(4);
  c.record(now, microseconds(300), microseconds(150), 2);
  EXPECT_TRUE(c.allows_workers(now)) << "the first run woke the workers";
  c.record(now, microseconds(300), microseconds(150), 2);
  EXPECT_FALSE(c.allows_workers(now)) << "the second did not";
  now += milliseconds(8);
  c.record(now, milliseconds(4), milliseconds(3), 2);
  EXPECT_FALSE(c.allows_workers(now)) << "waking takes no 3 ms";
}

TEST(Contention, WakingWorkersThatHadNoWorkIsNoStall) {
  Contention c;
  Contention::Time now{};
  for (int run = 0; run < 2; ++run) c.record(now, milliseconds(4), milliseconds(3), 2);
  now += milliseconds(4);
  for (int run = 0; run < 10; ++run) {
    now += milliseconds(1);
    c.record(now, microseconds(500), microseconds(400), 2);
    EXPECT_TRUE(c.allows_workers(now));
  }
}

TEST(Contention, CountsTheSleepOfAllThreads) {
  Contention c;
  Contention::Time now{};
  // One of eight threads waits for most of the run: uneven shares, not a stalled thread.
  for (int run = 0; run < 10; ++run) c.record(now, milliseconds(4), milliseconds(4), 8);
  EXPECT_TRUE(c.allows_workers(now));
  // All seven others wait for a stalled one.
  for (int run = 0; run < 2; ++run) c.record(now, milliseconds(4), milliseconds(7 * 3), 8);
  EXPECT_FALSE(c.allows_workers(now));
}

}  // namespace
}  // namespace lamina
