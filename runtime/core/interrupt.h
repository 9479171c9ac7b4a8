// Interruption of long loops (Ctrl-C): a language binding provides the check, loops call it.
#pragma once
#include <chrono>
#include <cstdint>

#include "runtime/core/export.h"

namespace lamina {

// `check` throws when the calling thread should stop. Null: no interruption.
LAMINA_API void set_interrupt_check(void (*check)());
void check_interrupt();

// One run of a loop. Checks about every 50 ms, however long an iteration takes; otherwise an iteration costs one comparison.
class LAMINA_API InterruptPoll {
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
