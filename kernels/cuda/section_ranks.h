// Sums over ranks: announce and collect. A block writes its chunks of this rank's roots to the window that the other ranks read, and
// then each chunk's flag, the number of the launch. To collect a chunk it waits for the flags of all ranks and adds their roots in the
// order of kernels/tree_sum.h. kernels/section/rank_sums.h says why two buffers are enough.
#pragma once
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

using section::BlockRoot;
using section::BlockSum;

// The word that is not 0 when the host has ended this rank's part of the job.
LAMINA_DEVICE const unsigned* own_end(const Arguments& a) { return reinterpret_cast<const unsigned*>(a.windows[a.rank]); }

constexpr int kRootsAtOnce = 8, kStackDepth = 8;  // of 64 roots
static_assert(1 << (kStackDepth - 2) >= section::kMostSumRoots);

// The launch's buffer of a value, in a window.
struct SumBuffer {
  const BlockSum& value;
  const BlockRoot* roots;
  char* const* windows;  // of the ranks
  unsigned launch, buffer;

  LAMINA_DEVICE SumBuffer(const Arguments& a, const BlockStep& s)
      : value(reinterpret_cast<const BlockSum*>(a.program + a.places.sums_at)[s.k]),
        roots(reinterpret_cast<const BlockRoot*>(a.program + a.places.roots_at) + value.first_root),
        windows(a.windows + value.window * value.ranks),
        launch(a.launch),
        buffer(makes(Mistake::has_one_buffer) ? 0 : a.launch & 1) {}
  LAMINA_DEVICE unsigned* flag(int rank, int chunk) const {
    return reinterpret_cast<unsigned*>(windows[rank]) + value.flag + int(buffer) * value.flags + chunk;
  }
  LAMINA_DEVICE float* root(const BlockRoot& r) const {
    return reinterpret_cast<float*>(windows[r.rank] + value.at + buffer * value.buffer + r.number * value.root);
  }
};

LAMINA_DEVICE void tell(const SumBuffer& sum, int rank, Rows chunks) {
  for (int c = chunks.begin + int(thread_index()); c < chunks.end; c += kThreads) store_release_in_system(sum.flag(rank, c), sum.launch);
}

// At the start of a launch with sums over ranks, by one thread: reports that an earlier launch was stopped.
LAMINA_CALLED void report_stopped(const Arguments& a) {
  if (load_acquire(a.state + a.places.counters + kAbort) != 0 && load_acquire_in_system(own_end(a)) == 0)
    report(a.faults, kStopped, 0, 0, 0);
}

// False when this rank announces nothing more.
LAMINA_DEVICE bool announce(const Block& b, const BlockStep& s, Rows chunks) {
  const Arguments& a = b.arguments;
  if (sync_block_or(thread_index() == 0 && load_acquire(a.state + a.places.counters + kAbort) != 0)) return false;
  const SumBuffer sum(a, s);
  if (makes(Mistake::shows_early)) tell(sum, a.rank, chunks);
  const float* from = b.in<const float>(s, 0);
  const int begin = chunks.begin * section::kSumChunk, end = least(chunks.end * section::kSumChunk, s.n);
  for (int r = 0; r < sum.value.roots; ++r) {
    if (sum.roots[r].rank != a.rank) continue;
    float* to = sum.root(sum.roots[r]);
    for (int i = begin + int(thread_index()); i < end; i += kThreads) to[i] = load_shared_between_blocks(from + i);
    from += s.n;
  }
  sync_block();  // then a release by one thread is behind all threads' stores
  if (!makes(Mistake::shows_early)) tell(sum, a.rank, chunks);
  return true;
}

// Until a chunk of another rank is there. False: this rank stops, or the host has ended its part of the job.
LAMINA_DEVICE bool wait_for_flag(const Arguments& a, const unsigned* flag, unsigned launch) {
  unsigned* abort = a.state + a.places.counters + kAbort;
  while (load_acquire_in_system(flag) != launch) {
    if (load_acquire(abort) != 0) return false;
    if (load_acquire_in_system(own_end(a)) != 0) {
      atomic_cas(abort, 0u, 1u);
      return false;
    }
    pause();
  }
  return true;
}

LAMINA_DEVICE bool collect(const Block& b, const BlockStep& s, Rows chunks) {
  const Arguments& a = b.arguments;
  const SumBuffer sum(a, s);
  const int t = int(thread_index()), ranks = sum.value.ranks, roots = sum.value.roots;
  bool stopped = false;
  for (int i = t; i < ranks * chunks.size() && !stopped && !makes(Mistake::collects_early); i += kThreads)
    stopped = !wait_for_flag(a, sum.flag(i % ranks, chunks.begin + i / ranks), sum.launch);
  // Addresses and joins of all roots, then each thread's stack of sums.
  const float** sources = reinterpret_cast<const float**>(b.ring());
  int* joins = reinterpret_cast<int*>(sources + section::kMostSumRoots);
  float* stack = reinterpret_cast<float*>(joins + section::kMostSumRoots) + t;
  if (t < roots) sources[t] = sum.root(sum.roots[t]), joins[t] = sum.roots[t].joins;
  if (sync_block_or(stopped)) return false;
  float* to = b.out<float>(s, 0);
  const int end = least(chunks.end * section::kSumChunk, s.n);
  for (int i = chunks.begin * section::kSumChunk + t; i < end; i += kThreads) {
    int depth = 0;
    for (int first = 0; first < roots; first += kRootsAtOnce) {
      float values[kRootsAtOnce];
      LAMINA_UNROLL
      for (int r = 0; r < kRootsAtOnce; ++r) values[r] = first + r < roots ? load_shared_between_blocks(sources[first + r] + i) : 0;
      LAMINA_UNROLL
      for (int r = 0; r < kRootsAtOnce; ++r) {
        if (first + r == roots) break;
        float top = values[r];
        for (int left = joins[first + r]; left > 0; --left) top = stack[--depth * kThreads] + top;
        stack[depth++ * kThreads] = top;
      }
    }
    to[i] = stack[0];
  }
  return true;
}

// False when the launch should stop. A function of its own, which needs few registers of the kernel's.
LAMINA_CALLED bool run_sum(const Arguments& arguments, int current) {
  Block b(arguments, nullptr, 0);
  b.current = current;
  const BlockStep& s = b.step();
  const Rows chunks = section::share(s.rows, s.each, int(block_index()) - s.first_block, s.blocks);
  return s.kind == StepKind::announce ? announce(b, s, chunks) : collect(b, s, chunks);
}

}  // namespace lamina::kernels::cuda::resident
