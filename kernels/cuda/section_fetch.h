// The warps of a chain (section_chain.h) that bring its weights, biases, masks and first rows to shared memory.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_pieces.h"

namespace lamina::kernels::cuda::resident {

// A piece's weights are copied by all fetching threads, rows as they lie in memory, n apart. Half a warp copies a row.
inline constexpr int kInRow = kPiece / 4, kRowsAtOnce = kFetchThreads / kInRow;
LAMINA_DEVICE void copy_weights(float* to, const float* from, int n) {
  LAMINA_UNROLL
  for (int i = 0; i < kPiece / kRowsAtOnce; ++i) copy_async<16>(to + i * kRowsAtOnce * kLeading, from + (long long)(i * kRowsAtOnce) * n);
}
// Of any piece. What is beyond the last row or column is 0.
template <bool gradient>
LAMINA_DEVICE void fetch_weights(const Pieces& p, const Link& link, float* place, int thread) {
  const int k = gradient ? p.outer : p.inner, n = gradient ? p.inner : p.outer;
  const int row0 = (gradient ? p.group : p.chunk) * kPiece, column0 = (gradient ? p.chunk : p.group) * kPiece;
  const int row = thread / kInRow, column = thread % kInRow * 4;
  const float* from = link.w + ((long long)(row0 + row) * n + column0 + column);
  float* to = place + row * kLeading + column;
  const bool by_fours = (link.flags & Link::by_fours) != 0;
  if (by_fours && row0 + kPiece <= k && column0 + kPiece <= n) return copy_weights(to, from, n);
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

// A piece's bias, mask or other operand, for few rows, by a thread per column. A column without a sum has the last one's.
template <bool gradient>
LAMINA_DEVICE void fetch_side(const Pieces& p, const Link& link, float* side, int column) {
  const int in_pass = p.rows(), sum = least(p.group * kPiece + column, p.outer - 1);
  if (link.flags & Link::is_dropout) {
    // A draw takes many instructions.
    LAMINA_ROLLED
    for (int r = 0; r < kFewRows; ++r)
      side[r * kPiece + column] = dropout_factor(reinterpret_cast<const long long*>(link.side), link.alpha,
                                                 (long long)(p.row + least(r, in_pass - 1)) * p.outer + sum);
    return;
  }
  const bool by_rows = gradient || !link.w, has_side = (link.flags & Task::has_side) != 0;
  const float* from = link.side + ((by_rows ? (long long)p.row * p.outer : 0) + sum);
  const int next_row = by_rows ? p.outer : 0;
  LAMINA_UNROLL
  for (int r = 0; r < kFewRows; ++r) {
    if (has_side)
      copy_async<4>(side + r * kPiece + column, from + least(r, in_pass - 1) * next_row);
    else
      side[r * kPiece + column] = 0;
  }
}

// The few rows that a piece of the chain's first product multiplies, by a warp. There are no more: 0.
LAMINA_DEVICE void bring_rows(const Pieces& p, const float* first_rows, float* rows) {
  const int in_pass = p.rows();
  LAMINA_UNROLL
  for (int i = 0; i < kPiece / int(kWarp); ++i) {
    const int column = int(lane()) + i * int(kWarp), term = p.chunk * kPiece + column;
    const float* from = first_rows + ((long long)p.row * p.inner + term);
    LAMINA_UNROLL
    for (int r = 0; r < kFewRows; ++r) {
      if (term < p.inner && r < in_pass)
        copy_async<4>(rows + r * kPiece + column, from + (long long)r * p.inner);
      else
        rows[r * kPiece + column] = 0;
    }
  }
}

// A piece of a link that is_whole, with all that comes with it: what the functions above and task_of() do, in a third of their
// instructions, which are the time that a piece takes.
template <bool gradient, bool is_one>
LAMINA_DEVICE void fetch_whole(const Pieces& p, const Link& link, float* place, unsigned number, int rows_of, int thread) {
  const int chunk = is_one ? 0 : p.chunk, group = is_one ? 0 : p.group, inner = is_one ? kPiece : p.inner,
            outer = is_one ? kPiece : p.outer;
  const int n = gradient ? inner : outer, row = thread / kInRow, column = thread % kInRow * 4;
  const float* const from =
      link.w + ((long long)((gradient ? group : chunk) * kPiece + row) * n + (gradient ? chunk : group) * kPiece + column);
  copy_weights(place + row * kLeading + column, from, n);
  const int last = p.rows() - 1;
  const float* const sides = link.side + ((gradient ? (long long)p.row * outer : 0) + group * kPiece + thread);
  float* const side = place + kSideAt + thread;
  LAMINA_UNROLL
  for (int r = 0; r < (gradient ? kFewRows : 1); ++r) {
    if (link.flags & Task::has_side)
      copy_async<4>(side + r * kPiece, sides + least(r, last) * outer);
    else
      side[r * kPiece] = 0;
  }
  if (thread == kFetchThreads - 1) {
    constexpr int kPlaceOfRows = kFewRows * kMostWidth;
    const bool ends = is_one || p.ends_sums();
    const Task task{.x = p.link == rows_of ? ChainMemory::first_rows(int(number)) : kRowsAt + p.side * kPlaceOfRows + chunk * kPiece,
                    .leading = p.link == rows_of ? kPiece : kMostWidth,
                    .y = kRowsAt + (p.side ^ 1) * kPlaceOfRows + group * kPiece,
                    .flags = Task::multiplies | (chunk == 0 ? Task::begins_sums : 0) | (ends ? Task::ends_sums : 0) |
                             (link.flags & (ends ? Task::has_side | Task::is_plain : int(Task::has_side))),
                    .columns = kPiece,
                    .activation = link.activation,
                    .alpha = link.alpha,
                    .kind = link.kind};
    *reinterpret_cast<Task*>(place + kTaskAt) = task;
  }
}

// Runs ahead of the computing warps as far as the ring has places, with three pieces on their way. many: the rows, if they are not few.
template <bool few, bool gradient>
LAMINA_DEVICE void fetch(const Block& b, const ChainMemory& memory, Pieces p, const ManyRows& many, unsigned places, int thread) {
  unsigned* const arrived = memory.word(ChainMemory::kArrived + thread / int(kWarp));
  const int rows_of = b.step().takes < 0 ? 0 : -1;
  unsigned brought = 0, free = places;  // pieces for which there was a place
  int ends = 0;
  float* to = memory.place(0);
  const float* const last = memory.place(int(places) - 1);
  while (p.some() || ends < (few ? 2 : 1)) {
    if (brought == free) {
      wait_copies<0>();
      tell_in_block(arrived, brought);
      const unsigned needed = makes(Mistake::overtakes) ? 0 : brought + 1 - places;
      free = Done::from(wait_in_block<false>(memory.done(), [&](unsigned long long told) { return Done::from(told).pieces >= needed; }))
                 .pieces +
             places;
    }
    if (!p.some()) {
      if (thread == kFetchThreads - 1) *reinterpret_cast<ManyTask*>(to + kTaskAt) = {end_of_pair(few && ends == 0), nullptr, 0, 0, 0, {}};
      ++ends;
    } else {
      const Link link = p.at();  // all of it with one wait
      if (few && (link.flags & Link::is_whole)) {
        if (link.flags & Link::is_one)
          fetch_whole<gradient, true>(p, link, to, brought, rows_of, thread);
        else
          fetch_whole<gradient, false>(p, link, to, brought, rows_of, thread);
      } else {
        if (link.waits > 0 && p.chunk == 0 && p.group == 0 && p.link > 0 && !makes(Mistake::fetches_before)) {
          wait_copies<0>();
          tell_in_block(arrived, brought);
          if (!wait_for_others(b, link.first_wait, link.waits, int(lane()), int(kWarp))) atomic_or(memory.word(ChainMemory::kStopped), 1u);
          sync_warp();
        }
        if (link.w) fetch_weights<gradient>(p, link, to, thread);
        if (few) fetch_side<gradient>(p, link, to + kSideAt, thread);
        // The race checker does not see a result that is made in place.
        if (few && thread == kFetchThreads - 1) {
          const Task task = task_of(p, link, brought, rows_of);
          *reinterpret_cast<Task*>(to + kTaskAt) = task;
        } else if (thread == kFetchThreads - 1) {
          const ManyTask task = task_of<gradient>(p, link, brought, many);
          *reinterpret_cast<ManyTask*>(to + kTaskAt) = task;
        }
      }
      p.go_on();
    }
    commit_copies();
    to = to == last ? memory.place(0) : to + kPlaceFloats, ++brought;
    wait_copies<2>();
    if (makes(Mistake::brings_late)) tell_in_block(arrived, brought);
    if (brought > 2) tell_in_block(arrived, brought - 2);
  }
  wait_copies<0>();
  tell_in_block(arrived, brought);
}

}  // namespace lamina::kernels::cuda::resident
