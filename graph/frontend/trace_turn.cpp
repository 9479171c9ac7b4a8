#include "graph/frontend/trace_turn.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace lamina {
namespace {
struct Waiting {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::thread::id, TraceTurn::State*> of;  // what each waiting thread waits for
};
Waiting& waiting() {
  static auto* w = new Waiting;
  return *w;
}
// Whether the owner of `state` waits, over others perhaps, for `me`.
bool waits_for(const Waiting& w, const TraceTurn::State* state, std::thread::id me) {
  while (state && state->owner != std::thread::id()) {
    if (state->owner == me) return true;
    auto next = w.of.find(state->owner);
    state = next == w.of.end() ? nullptr : next->second;
  }
  return false;
}
}  // namespace

TraceTurn::TraceTurn(State& state) : state_(state) {
  Waiting& w = waiting();
  const std::thread::id me = std::this_thread::get_id();
  std::unique_lock lock(w.mutex);
  while (state.owner != std::thread::id() && state.owner != me) {
    if (waits_for(w, &state, me)) return;
    w.of[me] = &state;
    w.changed.wait(lock);
    w.of.erase(me);
  }
  state.owner = me;
  ++state.depth;
  ours_ = true;
}

TraceTurn::~TraceTurn() {
  if (!ours_) return;
  Waiting& w = waiting();
  std::lock_guard lock(w.mutex);
  if (--state_.depth == 0) {
    state_.owner = {};
    w.changed.notify_all();
  }
}

}  // namespace lamina
