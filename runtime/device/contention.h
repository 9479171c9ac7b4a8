// Contention: detects whether the workers of a pool have cores of their own. If another process keeps a core busy, the thread on that core
// stalls for milliseconds and the others wait at the next barrier: two threads are then slower than one.
#pragma once
#include <algorithm>
#include <chrono>
#include <utility>

namespace lamina {

// Not thread-safe. A run counts as stalled when its threads slept for more than a third of it. Two stalled runs in a row, or one after a
// pause, start a pause in which runs should use one thread. Pauses double from 4 ms to 200 ms; 32 good runs reset them. A run that wakes
// workers, which sleep when they have had no work for a moment, takes up to half a millisecond more on some machines: it does not count
// unless its threads slept for longer than that takes.
class Contention {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  bool allows_workers(Time now) const { return pause_ == Duration(0) || now >= until_; }
  // After a run with workers of duration `total`; `slept`: summed over its threads.
  void record(Time now, Duration total, Duration slept, int threads) {
    const bool woke_workers = now - total - std::exchange(last_, now) > kAwake && slept < kLongestWaking * (threads - 1);
    if (slept * 3 <= total * (threads - 1)) {
      stopped_ = 0;
      if (pause_ > Duration(0) && ++good_ >= 32) pause_ = Duration(0);
      return;
    }
    if (woke_workers) return;
    good_ = 0;
    if (++stopped_ < 2 && pause_ == Duration(0)) return;
    pause_ = pause_ == Duration(0) ? kShortest : std::min<Duration>(2 * pause_, kLongest);
    until_ = now + pause_;
  }

 private:
  static constexpr Duration kShortest = std::chrono::milliseconds(4), kLongest = std::chrono::milliseconds(200),
                            kLongestWaking = std::chrono::milliseconds(1), kAwake = std::chrono::microseconds(50);
  Duration pause_{0};
  Time until_{}, last_{};  // last: the end of the last run with workers
  int good_ = 0, stopped_ = 0;
};

}  // namespace lamina
