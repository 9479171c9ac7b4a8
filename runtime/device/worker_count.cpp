#include "runtime/device/worker_count.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>

namespace lamina {
namespace {

std::atomic<int> workers{0};

int cores() {
  cpu_set_t set;
  static const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  return count;
}

}  // namespace

void count_worker(int change) {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { workers.store(0, std::memory_order_relaxed); });
  (void)registered;
  workers.fetch_add(change, std::memory_order_relaxed);
}

bool may_spin() { return workers.load(std::memory_order_relaxed) + 1 <= cores(); }

}  // namespace lamina
