// TraceTurn: one thread at a time traces a Function, and no lock is held meanwhile. A thread may trace a Function inside of its own trace;
// two threads that would wait for each other trace side by side instead.
#pragma once
#include "runtime/core/mutex.h"

namespace lamina {

class TraceTurn {
 public:
  struct State {
    ThreadToken owner = nullptr;
    int depth = 0;
  };
  explicit TraceTurn(State& state);
  ~TraceTurn();
  TraceTurn(const TraceTurn&) = delete;

 private:
  State& state_;
  bool ours_ = false;
};

}  // namespace lamina
