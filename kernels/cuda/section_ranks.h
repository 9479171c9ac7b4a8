// Sums over ranks: announce and collect. Blocks write this rank's roots of a value to the window that the other ranks read, and the last of
// them writes the value's flag, the number of the launch. To collect a value, blocks wait for the flags of all ranks and add their roots in
// the order of kernels/tree_sum.h.
#pragma once
#include "kernels/cuda/section_code.h"
#include "kernels/cuda/section_windows.h"

namespace lamina::kernels::cuda::resident {

// The word that is not 0 when the host has ended this rank's part of the job.
LAMINA_DEVICE const unsigned* own_end(const Launch& a) { return reinterpret_cast<const unsigned*>(a.windows[a.rank]); }

constexpr int kRootsAtOnce = 8, kStackDepth = 8;  // of 64 roots
static_assert(1 << (kStackDepth - 2) >= section::kMostSumRoots);
static_assert(3 * section::kMostSumRoots + kStackDepth * kElements * kThreads <= kFreeFloats);

// At the start of a launch with sums over ranks, by one thread: reports that an earlier launch was stopped.
LAMINA_CALLED void report_stopped(const Launch& a) {
  if (load_acquire(a.state + a.places.counters + kAbort) != 0 && load_acquire_in_system(own_end(a)) == 0)
    report(a.faults, kStopped, 0, 0, 0);
}

// Copies chunks of this rank's roots.
LAMINA_DEVICE void announce(const Block& b, const BlockStep& s, Rows chunks) {
  const SumBuffer sum(b.launch(), s.k);
  const float* from = b.data<const float>(s.first_in);
  const int begin = chunks.begin * section::kSumChunk, end = least(chunks.end * section::kSumChunk, s.n);
  for (int r = 0; r < s.extras; ++r, from += s.n) {
    float* to = sum.root(b.launch().rank, r);
    for (int i = begin + int(thread_index()); i < end; i += kThreads) to[i] = load_shared_between_blocks(from + i);
  }
}

// Until a value of another rank is there. False: this rank stops, or the host has ended its part of the job.
LAMINA_DEVICE bool wait_for_flag(const Launch& a, const unsigned* flag, unsigned launch) {
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

// What is done with sums: a thread has kElements of a chunk.
static_assert(section::kSumChunk == kElements * kThreads);
LAMINA_DEVICE void keep(const Block& b, const BlockStep& s, int first, int count, const Four& sums) {
  if (s.code >= 0 && s.descent < 0) {
    sync_block();  // that memory becomes registers
    const Code code(b, s.code, s.first_in, s.first_out, true, s.n, s.known);
    code.bring();
    return code.elements(first, kThreads, count, sums);
  }
  const bool descends = s.code >= 0;
  const float* w = descends ? b.data<const float>(s.first_in + s.descent) : nullptr;
  const float rate = descends ? load_shared_between_blocks(b.data<const float>(s.first_in + 1 - s.descent)) : 0;
  float* to = b.data<float>(s.first_out);
  LAMINA_UNROLL
  for (int e = 0; e < kElements; ++e)
    if (const int i = first + e * kThreads; e < count) to[i] = descends ? load_shared_between_blocks(w + i) - rate * sums.v[e] : sums.v[e];
}

LAMINA_DEVICE bool collect(const Block& b, const BlockStep& s, Rows chunks) {
  const Launch& a = b.launch();
  const SumBuffer sum(a, s.k);
  const int t = int(thread_index()), ranks = sum.value.ranks, roots = sum.value.roots;
  bool stopped = false;
  for (int rank = t; rank < ranks && !makes(Mistake::collects_early); rank += kThreads)
    if (!makes(Mistake::misses_a_rank) || rank + 1 < ranks) stopped = !wait_for_flag(a, sum.flag(rank), sum.launch) || stopped;
  // Addresses and joins of all roots, then each thread's stack of sums.
  const float** sources = reinterpret_cast<const float**>(b.ring());
  int* joins = reinterpret_cast<int*>(sources + section::kMostSumRoots);
  float* stack = reinterpret_cast<float*>(joins + section::kMostSumRoots) + t;
  for (int chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    if (chunk > chunks.begin) sync_block();  // that memory was registers
    if (t < roots) sources[t] = sum.root(sum.roots[t].rank, sum.roots[t].number), joins[t] = sum.roots[t].joins;
    if (sync_block_or(stopped)) return false;
    const int first = chunk * section::kSumChunk + t, left = (s.n - first + kThreads - 1) / kThreads;
    int depth = 0;
    for (int begin = 0; begin < roots; begin += kRootsAtOnce) {
      Four values[kRootsAtOnce];
      LAMINA_UNROLL
      for (int r = 0; r < kRootsAtOnce; ++r) {
        LAMINA_UNROLL
        for (int e = 0; e < kElements; ++e)
          values[r].v[e] = begin + r < roots ? load_shared_between_blocks(sources[begin + r] + least(first + e * kThreads, s.n - 1)) : 0;
      }
      LAMINA_UNROLL
      for (int r = 0; r < kRootsAtOnce; ++r) {
        if (begin + r == roots) break;
        Four top = values[r];
        for (int more = joins[begin + r]; more > 0; --more) {
          --depth;
          LAMINA_UNROLL
          for (int e = 0; e < kElements; ++e) top.v[e] = stack[(depth * kElements + e) * kThreads] + top.v[e];
        }
        LAMINA_UNROLL
        for (int e = 0; e < kElements; ++e) stack[(depth * kElements + e) * kThreads] = top.v[e];
        ++depth;
      }
    }
    Four sums;
    LAMINA_UNROLL
    for (int e = 0; e < kElements; ++e) sums.v[e] = stack[e * kThreads];
    keep(b, s, first, most(0, least(kElements, left)), sums);
  }
  return true;
}

// False when the launch should stop. A function of its own, which needs few registers of the kernel's.
LAMINA_CALLED bool run_sum(char* const* at, int current) {
  Block b(at, nullptr, 0);
  b.current = current;
  const BlockStep& s = b.step();
  const Rows chunks = section::share(s.rows, s.each, int(block_index()) - s.first_block, s.blocks);
  if (s.kind == StepKind::collect) return collect(b, s, chunks);
  announce(b, s, chunks);
  return true;
}

}  // namespace lamina::kernels::cuda::resident
