// TraceTurn: only one thread at a time traces a Function; no lock is held while it traces. A thread may trace a Function recursively. Two
// threads that would deadlock trace concurrently instead.
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
