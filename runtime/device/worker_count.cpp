#include "runtime/device/worker_count.h"

#include <atomic>

#include "runtime/core/cores.h"
#include "runtime/core/mutex.h"

namespace lamina {
namespace {

std::atomic<int> workers{0};

}  // namespace

void count_worker(int change) {
  static const bool registered = (on_fork({.in_child = [] { workers.store(0, std::memory_order_relaxed); }}), true);
  (void)registered;
  workers.fetch_add(change, std::memory_order_relaxed);
}

bool may_spin() { return workers.load(std::memory_order_relaxed) + 1 <= cores().usable(); }

}  // namespace lamina
