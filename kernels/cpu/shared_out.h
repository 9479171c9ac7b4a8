// Work of independent items, shared out among the threads of a device. Not for *_isa.cpp.
#pragma once
#include <algorithm>

#include "runtime/device/stream.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {

// Runs part(first, end) for parts of `count` items on at most `threads` threads, of the device's.
template <class F>
void share_out(Stream& stream, int64_t count, double threads, const F& part) {
  const int most = int(std::min({threads, double(count), 1024.0}));
  if (most <= 1) return part(int64_t(0), count);
  struct Job {
    const F& part;
    int64_t count;
  } job{part, count};
  const auto run = [](void* c, int thread, int running, ThreadPool::Barrier&) {
    const Job& j = *static_cast<const Job*>(c);
    j.part(j.count * thread / running, j.count * (thread + 1) / running);
  };
  ThreadPool::of(stream.device).run(most, run, &job);
}
// On all threads of the device if the items have `worth` elements together, else on one.
template <class F>
void share_out(Stream& stream, int64_t count, int64_t elements, int64_t worth, const F& part) {
  share_out(stream, count, elements < worth ? 1.0 : 1024.0, part);
}

}  // namespace lamina::kernels::cpu
