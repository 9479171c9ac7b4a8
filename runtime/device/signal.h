// Signal: a counter that threads wait on until it moves: a bounded spin, then sleep in the kernel.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace lamina {

class Signal {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Returns when the value is not `old`. The result is how long it slept; spinning is not counted.
  std::chrono::nanoseconds wait_while(uint32_t old, bool spin) {
    if (spin) {
      auto start = std::chrono::steady_clock::now();
      do {
        for (int i = 0; i < 64; ++i) {
          if (value() != old) return {};
          relax();
        }
      } while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(50));
    }
    // The sleepers and the value are written and read in one total order: a waker that sees no sleeper moved the value before
    // that sleeper looked at it for the last time.
    const auto began = std::chrono::steady_clock::now();
    sleepers_.fetch_add(1);
    while (value_.load() == old) syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
    sleepers_.fetch_sub(1);
    return std::chrono::steady_clock::now() - began;
  }

  void advance() {
    value_.fetch_add(1);
    if (sleepers_.load() != 0) syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace lamina
