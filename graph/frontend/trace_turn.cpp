#include "graph/frontend/trace_turn.h"

#include <map>

#include "runtime/core/mutex.h"

namespace lamina {
namespace {
struct Waiting {
  Mutex mutex;
  Condition changed;
  std::map<ThreadToken, TraceTurn::State*> of;  // per waiting thread: what it waits for
};
Waiting& waiting() {
  static auto* w = new Waiting;
  return *w;
}
// In a child process, the parent's tracing threads are gone.
bool has_owner(const TraceTurn::State& state) { return state.owner && !is_gone(state.owner); }
// Whether the owner of `state` waits, directly or indirectly, for `me`.
bool waits_for(const Waiting& w, const TraceTurn::State* state, ThreadToken me) {
  while (state && has_owner(*state)) {
    if (state->owner == me) return true;
    auto next = w.of.find(state->owner);
    state = next == w.of.end() ? nullptr : next->second;
  }
  return false;
}
}  // namespace

TraceTurn::TraceTurn(State& state) : state_(state) {
  Waiting& w = waiting();
  const ThreadToken me = this_thread();
  std::unique_lock lock(w.mutex);
  while (has_owner(state) && state.owner != me) {
    if (waits_for(w, &state, me)) return;
    w.of[me] = &state;
    w.changed.wait(lock);
    w.of.erase(me);
  }
  if (state.owner != me) state = {.owner = me};
  ++state.depth;
  ours_ = true;
}

TraceTurn::~TraceTurn() {
  if (!ours_) return;
  Waiting& w = waiting();
  std::lock_guard lock(w.mutex);
  if (--state_.depth == 0) {
    state_.owner = nullptr;
    w.changed.notify_all();
  }
}

}  // namespace lamina
