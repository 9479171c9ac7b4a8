// Whether the user wants a long loop to end (Ctrl-C): a language binding says how to find out, loops ask.
#pragma once
#include <chrono>
#include <cstdint>

#include "runtime/core/export.h"

namespace lamina {

// `check` throws when the thread that it is called on is to end what it does. Null: nobody interrupts.
LAMINA_API void set_interrupt_check(void (*check)());
void check_interrupt();

// One run of a loop: asks about every 50 ms, however long an iteration takes. Between, an iteration costs a comparison.
class InterruptPoll {
 public:
  void operator()() {
    if (++iterations_ >= until_) [[unlikely]]
      look();
  }

 private:
  using Clock = std::chrono::steady_clock;
  void look();
  int64_t iterations_ = 0, until_ = 1, stride_ = 1;
  Clock::time_point looked_{}, asked_{};
};

}  // namespace lamina
