// The warps of a chain (section_chain.h) that bring its weights, biases, masks and first rows to shared memory.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_pieces.h"

namespace lamina::kernels::cuda::resident {

// A piece's weights, by all fetching threads: rows as they lie in memory. What is beyond the last row or column is 0. Half a warp copies a
// row.
template <bool gradient>
LAMINA_DEVICE void fetch_weights(const Pieces& p, const Link& link, float* stage, int thread) {
  constexpr int kInRow = kPiece / 4, kRowsAtOnce = kFetchThreads / kInRow;
  const int k = !link.w ? 0 : gradient ? p.outer : p.inner, n = gradient ? p.inner : p.outer;  // without weights: zeros
  const int row0 = (gradient ? p.group : p.chunk) * kPiece, column0 = (gradient ? p.chunk : p.group) * kPiece;
  const int row = thread / kInRow, column = thread % kInRow * 4;
  const float* from = link.w + ((long long)(row0 + row) * n + column0 + column);
  float* to = stage + row * kLeading + column;
  const bool by_fours = (link.flags & Link::by_fours) != 0;
  if (by_fours && row0 + kPiece <= k && column0 + kPiece <= n) [[likely]] {
    LAMINA_UNROLL
    for (int i = 0; i < kPiece / kRowsAtOnce; ++i) copy_async<16>(to + i * kRowsAtOnce * kLeading, from + (long long)(i * kRowsAtOnce) * n);
    return;
  }
  LAMINA_ROLLED
  for (int i = 0; i < kPiece / kRowsAtOnce; ++i, from += kRowsAtOnce * n, to += kRowsAtOnce * kLeading) {
    const int inside = row0 + row + i * kRowsAtOnce < k ? n - column0 - column : 0;
    if (by_fours && inside > 0) {
      copy_async<16>(to, from);
      continue;
    }
    LAMINA_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (j < inside)
        copy_async<4>(to + j, from + j);
      else
        to[j] = 0;
    }
  }
}

// A piece's bias, mask or other operand, by a thread per column. A column without a sum has the last one's.
template <int R, bool gradient>
LAMINA_DEVICE void fetch_side(const Pieces& p, const Link& link, float* side, int column) {
  const int in_pass = p.rows(), sum = least(p.group * kPiece + column, p.outer - 1);
  if (link.flags & Link::is_dropout) {
    // A draw takes many instructions.
    LAMINA_ROLLED
    for (int r = 0; r < R; ++r)
      side[r * kPiece + column] = dropout_factor(reinterpret_cast<const long long*>(link.side), link.alpha,
                                                 (long long)(p.row + least(r, in_pass - 1)) * p.outer + sum);
    return;
  }
  const bool by_rows = gradient || !link.w, has_side = (link.flags & Task::has_side) != 0;
  const float* from = link.side + ((by_rows ? (long long)p.row * p.outer : 0) + sum);
  const int next_row = by_rows ? p.outer : 0;
  LAMINA_UNROLL
  for (int r = 0; r < R; ++r) {
    if (has_side)
      copy_async<4>(side + r * kPiece + column, from + least(r, in_pass - 1) * next_row);
    else
      side[r * kPiece + column] = 0;
  }
}

// The rows of a chain's first product, by a thread per column. There are no more: 0.
template <int R>
LAMINA_DEVICE void fetch_rows(const Pieces& p, const float* first_rows, float* rows, int column) {
  const int term = p.chunk * kPiece + column, in_pass = p.rows();
  const float* from = first_rows + ((long long)p.row * p.inner + term);
  LAMINA_UNROLL
  for (int r = 0; r < R; ++r) {
    if (term < p.inner && r < in_pass)
      copy_async<4>(rows + r * kPiece + column, from + (long long)r * p.inner);
    else
      rows[r * kPiece + column] = 0;
  }
}

// When a piece is met for, the three behind it are on their way or about to be.
template <int R, bool gradient>
LAMINA_DEVICE void fetch(const Block& b, const ChainMemory& memory, Pieces p, const float* first_rows, int thread) {
  int stage = 0, slot = 0, brought = 0;
  for (int met = 1 - kStages; met < brought; ++met) {
    if (met >= 0) {
      if (makes(Mistake::brings_late)) meet();
      wait_copies<kStages - 2>();
      if (!makes(Mistake::brings_late)) meet();
    }
    if (p.some()) {
      const Link link = p.at();  // all of it with one wait
      if (link.waits > 0 && p.chunk == 0 && p.group == 0 && p.link > 0 && !makes(Mistake::fetches_before)) {
        if (!wait_for_others(b, link.first_wait, link.waits, int(lane()), int(kWarp))) atomic_or(memory.stopped(), 1u);
        sync_warp();
      }
      float* const to = memory.slot(slot);
      fetch_weights<gradient>(p, link, memory.stage(stage), thread);
      if (thread < kPiece)
        fetch_side<R, gradient>(p, link, to + kSideAt, thread);
      else if (p.link == 0)
        fetch_rows<R>(p, first_rows, to + kFirstRowsAt, thread - kPiece);
      if (thread == kFetchThreads - 1) {
        const Task task = task_of(memory, p, to);  // the race checker does not see a result that is made in place
        *reinterpret_cast<Task*>(to) = task;
      }
      stage = next_of(stage, kStages), slot = next_of(slot, kSlots), ++brought;
      p.go_on();
    }
    commit_copies();
  }
  meet(), meet();  // no piece comes two turns behind the last ones
}

}  // namespace lamina::kernels::cuda::resident
