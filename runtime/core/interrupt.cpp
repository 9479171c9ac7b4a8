#include "runtime/core/interrupt.h"

#include <atomic>

#include "runtime/core/limits.h"

namespace lamina {
namespace {
std::atomic<void (*)()> the_check{nullptr};
}  // namespace

void set_interrupt_check(void (*check)()) { the_check = check; }
void check_interrupt() {
  check_time_limit();
  if (auto check = the_check.load(std::memory_order_acquire)) check();
}

void InterruptPoll::look() {
  using namespace std::chrono_literals;
  const Clock::time_point now = Clock::now();
  if (asked_ == Clock::time_point{}) {
    asked_ = now;
  } else {
    const auto since = now - looked_;
    if (since < 5ms)
      stride_ *= 2;
    else if (since > 20ms)
      stride_ = stride_ > 4 ? stride_ / 4 : 1;
  }
  looked_ = now;
  until_ = iterations_ + stride_;
  if (now - asked_ < 50ms) return;
  asked_ = now;
  check_interrupt();
}

}  // namespace lamina
