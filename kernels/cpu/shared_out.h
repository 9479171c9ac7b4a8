// Work of independent items, shared out among the threads of a device. Not for *_isa.cpp.
#pragma once
#include <algorithm>

#include "runtime/core/config.h"
#include "runtime/device/stream.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {

// Runs part(first, end) for parts of `count` items: on one thread if they have fewer than `worth` elements together.
template <class F>
void share_out(Stream& stream, int64_t count, int64_t elements, int64_t worth, const F& part) {
  const int threads = elements < worth ? 1 : int(std::min<int64_t>(config::threads(), count));
  if (threads <= 1) return part(int64_t(0), count);
  struct Job {
    const F& part;
    int64_t count;
  } job{part, count};
  const auto run = [](void* c, int thread, int running, ThreadPool::Barrier&) {
    const Job& j = *static_cast<const Job*>(c);
    j.part(j.count * thread / running, j.count * (thread + 1) / running);
  };
  ThreadPool::of(stream.device).run(threads, run, &job);
}

}  // namespace lamina::kernels::cpu
