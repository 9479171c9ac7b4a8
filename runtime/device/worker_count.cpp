#include "runtime/device/worker_count.h"

#include <pthread.h>

#include <atomic>

#include "runtime/core/cores.h"

namespace lamina {
namespace {

std::atomic<int> workers{0};

}  // namespace

void count_worker(int change) {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { workers.store(0, std::memory_order_relaxed); });
  (void)registered;
  workers.fetch_add(change, std::memory_order_relaxed);
}

bool may_spin() { return workers.load(std::memory_order_relaxed) + 1 <= cores().usable(); }

}  // namespace lamina
