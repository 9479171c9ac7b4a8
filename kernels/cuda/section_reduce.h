// Sums, means, extremes and products over rows or columns, in the order of kernels/reduce.h: the same bits as on the CPU.
#pragma once
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

using section::Reduction;

LAMINA_DEVICE float combine(Reduction op, float a, float b) {
  switch (op) {
    case Reduction::prod: return a * b;
    case Reduction::max: return a != a ? a : a > b ? a : b;
    case Reduction::min: return a != a ? a : a < b ? a : b;
    default: return a + b;
  }
}
LAMINA_DEVICE float of_nothing(Reduction op) {
  return op == Reduction::prod ? 1.0f : op == Reduction::mean ? scalar::float_of(0x7fc00000) : 0.0f;
}

// Combines any number of equally long parts as a balanced tree. `level` returns the storage of a level's sum.
template <class Level>
LAMINA_DEVICE void push(Reduction op, unsigned number, float part, Level level) {
  int l = 0;
  for (unsigned n = number; n & 1; n >>= 1) part = combine(op, level(l), part), ++l;
  level(l) = part;
}
template <class Level>
LAMINA_DEVICE float total(Reduction op, unsigned count, Level level) {
  float sum = 0;
  bool some = false;
  for (int l = 0; count >> l; ++l) {
    if (!(count >> l & 1)) continue;
    sum = some ? combine(op, level(l), sum) : level(l);
    some = true;
  }
  return sum;
}

// By a warp: reduces x[0..n); every lane gets the result. scratch: 24 floats of the warp's own.
LAMINA_DEVICE float sequence(Reduction op, const float* x, long long n, float* scratch) {
  constexpr int run_length = 1024, kTogether = 8;
  if (n == 0) return of_nothing(op);
  const int l = int(lane());
  auto level = [&](int i) -> float& { return scratch[i]; };
  unsigned runs = 0;
  float only = 0;
  for (long long first = 0; first < n; first += run_length, ++runs) {
    const int count = int(n - first < run_length ? n - first : run_length);
    float v = op == Reduction::prod ? 1.0f : op == Reduction::max || op == Reduction::min ? load_shared_between_blocks(x + first) : 0.0f;
    LAMINA_ROLLED
    for (int begin = l; begin < count; begin += kTogether * int(kWarp)) {
      float some[kTogether];  // their loads wait together
      LAMINA_UNROLL
      for (int i = 0; i < kTogether; ++i)
        some[i] = begin + i * int(kWarp) < count ? load_shared_between_blocks(x + first + begin + i * int(kWarp)) : 0;
      LAMINA_UNROLL
      for (int i = 0; i < kTogether; ++i) {
        if (begin + i * int(kWarp) >= count) break;
        v = combine(op, v, some[i]);
      }
    }
    LAMINA_ROLLED
    for (unsigned by = kWarp / 2; by; by /= 2) v = combine(op, v, shuffle_down(v, by));
    if (n <= run_length)
      only = v;
    else if (l == 0)
      push(op, runs, v, level);
  }
  float sum = n <= run_length ? only : l == 0 ? total(op, runs, level) : 0;
  sum = shuffle(sum, 0);
  return op == Reduction::mean ? sum / float(n) : sum;
}

// By a thread: column `column` of r x n. All threads of the block must call it; scratch: 24 floats per thread.
LAMINA_DEVICE float column_result(Reduction op, const float* x, int rows, int n, int column, bool active, float* scratch) {
  constexpr int block_rows = 32, kTogether = 16, levels = kScratchFloats / kThreads;
  static_assert(levels >= 12);  // up to 32 << 12 rows; more would share the last level, which no batch reaches
  if (rows == 0) return of_nothing(op);
  if (n == 1) {  // a single column is reduced as a row
    float v = 0;
    if (warp_index() == 0) v = sequence(op, x, rows, scratch);
    return v;
  }
  if (!active) return 0;
  auto level = [&](int i) -> float& { return scratch[least(i, levels - 1) * kThreads + int(thread_index())]; };
  unsigned blocks = 0;
  float only = 0;
  for (int first = 0; first < rows; first += block_rows, ++blocks) {
    const int end = least(rows, first + block_rows);
    float v = 0;
    for (int r = first; r < end; r += kTogether) {
      float some[kTogether];  // their loads wait together
      LAMINA_UNROLL
      for (int i = 0; i < kTogether; ++i) some[i] = r + i < end ? load_shared_between_blocks(x + (long long)(r + i) * n + column) : 0;
      LAMINA_UNROLL
      for (int i = 0; i < kTogether; ++i)
        if (r + i < end) v = r + i > first ? combine(op, v, some[i]) : some[i];
    }
    if (rows <= block_rows)
      only = v;
    else
      push(op, blocks, v, level);
  }
  const float sum = rows <= block_rows ? only : total(op, blocks, level);
  return op == Reduction::mean ? sum / float(rows) : sum;
}

LAMINA_DEVICE void reduce(Block& b, const BlockStep& s) {
  const float* x = b.operand<const float>(0);
  float* y = b.operand<float>(1);
  float* scratch = b.scratch() + warp_index() * 24;
  if (s.reduced == Broadcast::column) {
    const Rows mine = b.rows_of(s);
    for (int r = mine.begin + int(warp_index()); r < mine.end; r += kThreads / int(kWarp)) {
      const float v = s.n == 1 ? load_shared_between_blocks(x + r) : sequence(s.reduction, x + (long long)r * s.n, s.n, scratch);
      sync_warp();
      if (lane() == 0) y[r] = v;
    }
    return;
  }
  if (s.partition != Partition::models && int(block_index()) != s.first_block) return;
  if (s.reduced == Broadcast::scalar) {
    if (warp_index() != 0) return;
    const float v = sequence(s.reduction, x, (long long)s.rows * s.n, scratch);
    if (lane() == 0) y[0] = v;
    return;
  }
  for (int first = 0; first < s.n; first += kThreads) {
    const int column = first + int(thread_index());
    const bool active = column < s.n;
    const float v = column_result(s.reduction, x, s.rows, s.n, column, active, b.scratch());
    if (active) y[column] = v;
  }
}

}  // namespace lamina::kernels::cuda::resident
