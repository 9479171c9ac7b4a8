// Signal: a counter that threads can wait on until it changes: they spin for a bounded time, then sleep in the kernel.
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

  // Returns when the value differs from `old`. Result: time slept, without spinning.
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
    // Sleeper count and value are accessed in one total order: if a waker sees no sleeper, it changed the value before the sleeper's last
    // look at it.
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
