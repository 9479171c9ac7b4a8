// The warps of a chain (section_chain.h) that bring its weights, biases, masks and first rows to shared memory.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_pieces.h"

namespace lamina::kernels::cuda::resident {

// A thread's part of a piece, on its way from global to shared memory.
template <int R, bool gradient>
struct Fetched {
  static constexpr int kTiles = kPiece * kPiece / 16 / kPairThreads;
  Four tiles[kTiles][4];  // 4 x 4 weights each, as they lie in memory
  float side[R], rows[R];

  // Neighbouring threads have neighbouring tiles: global memory is read by whole lines, and shared memory written without bank conflicts.
  LAMINA_DEVICE static constexpr int tile_row(int thread, int t) {
    const int in_warp = thread % int(kWarp);
    return (thread / int(kWarp) * 2 + t / 2) * 4 + (gradient ? in_warp / 8 : in_warp % 4);
  }
  LAMINA_DEVICE static constexpr int tile_column(int thread, int t) {
    const int in_warp = thread % int(kWarp);
    return t % 2 * 8 + (gradient ? in_warp % 8 : in_warp / 4);
  }

  // `column`, and those a warp beyond. A column without a sum has the last one's side.
  LAMINA_DEVICE void load_side(const Pieces& p, const Link& link, const float* first_rows, int column) {
    const int in_pass = p.rows();
    const bool by_rows = gradient || !link.w;
    const float* first = link.side + (by_rows ? (long long)p.row * p.outer : 0);
    LAMINA_KNOWN_POINTER_HERE(first);
    const int next_row = by_rows ? p.outer : 0;
    const int sum = least(p.group * kPiece + column, p.outer - 1);
    if (link.flags & Link::is_dropout) {
      // A draw takes many instructions.
      LAMINA_ROLLED
      for (int i = 0; i < R; ++i) {
        const float factor = dropout_factor(reinterpret_cast<const long long*>(link.side), link.alpha,
                                            (long long)(p.row + least(i, in_pass - 1)) * p.outer + sum);
        LAMINA_UNROLL
        for (int j = 0; j < R; ++j)
          if (i == j) side[j] = factor;
      }
    } else {
      const bool has_side = (link.flags & Task::has_side) != 0;
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) side[r] = has_side ? load_shared_between_blocks(first + (least(r, in_pass - 1) * next_row + sum)) : 0;
    }
    if (p.link > 0) return;
    const int term = p.chunk * kPiece + column;
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r)
      rows[r] = term < p.inner && r < in_pass ? load_shared_between_blocks(first_rows + (long long)(p.row + r) * p.inner + term) : 0;
  }
  // The weights last: nothing waits for the addresses that their loads read.
  LAMINA_DEVICE void load(const Pieces& p, const float* first_rows, int thread) {
    const Link& link = p.at();
    const int k = !link.w ? 0 : gradient ? p.outer : p.inner, n = gradient ? p.inner : p.outer;
    const int row0 = (gradient ? p.group : p.chunk) * kPiece, column0 = (gradient ? p.chunk : p.group) * kPiece;
    const int row = row0 + 4 * tile_row(thread, 0), column = column0 + 4 * tile_column(thread, 0);
    const float* from[2][4];  // rows of the first two tiles, and of the others
    LAMINA_UNROLL
    for (int t = 0; t < 2; ++t) {
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) {
        from[t][i] = link.w + (long long)(row + 4 * (tile_row(0, 2 * t) - tile_row(0, 0)) + i) * n + column;
        LAMINA_KNOWN_POINTER_HERE(from[t][i]);
      }
    }
    int whole = (link.flags & Link::by_fours) && row0 + kPiece <= k && column0 + kPiece <= n;
    LAMINA_KNOWN_HERE(whole);
    load_side(p, link, first_rows, thread);
    constexpr int next_tile = 4 * (tile_column(0, 1) - tile_column(0, 0));
    if (whole) [[likely]] {
      LAMINA_UNROLL
      for (int i = 0; i < 4 * kTiles; ++i)
        tiles[i % kTiles][i / kTiles] = four_shared_between_blocks(from[i % kTiles / 2][i / kTiles] + i % 2 * next_tile);
    } else {
      const bool by_fours = (link.flags & Link::by_fours) != 0;
      LAMINA_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        const int row = row0 + 4 * tile_row(thread, t), column = column0 + 4 * tile_column(thread, t);
        LAMINA_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float* from = link.w + (long long)(row + i) * n + column;
          const bool inside = row + i < k;
          Four& f = tiles[t][i];
          if (by_fours) {
            f = inside && column < n ? four_shared_between_blocks(from) : Four{{0, 0, 0, 0}};
          } else {
            LAMINA_UNROLL
            for (int j = 0; j < 4; ++j) f.v[j] = inside && column + j < n ? load_shared_between_blocks(from + j) : 0;
          }
        }
      }
    }
  }
  LAMINA_DEVICE void store(const ChainMemory& memory, const Pieces& p, int number, int thread) const {
    float* const stage = memory.stage(number);
    if (thread == 0) {
      const Task task = task_of(memory, p, stage);  // the race checker does not see a result that is made in place
      *reinterpret_cast<Task*>(stage + kTaskAt) = task;
    }
    if (makes(Mistake::brings_late)) meet_at(number);
    LAMINA_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      const int row = 4 * tile_row(thread, t), column = 4 * tile_column(thread, t);
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) {
        const auto& f = tiles[t];
        if constexpr (gradient)
          put_four(stage + (row + i) * kLeading + column, f[i]);
        else
          put_four(stage + (column + i) * kLeading + row, Four{{f[0].v[i], f[1].v[i], f[2].v[i], f[3].v[i]}});
      }
    }
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) {
      stage[kSideAt + r * kPiece + thread] = side[r];
      if (p.link == 0) stage[kFirstRowsAt + r * kPiece + thread] = rows[r];
    }
  }
};
template <int R, bool gradient>
LAMINA_DEVICE void fetch(const Block& b, const ChainMemory& memory, Pieces p, const float* first_rows, int pair, int thread) {
  // Each warp of both pairs waits for what each link waits for, in order.
  const auto go_on = [&] {
    p.go_on();
    if (!p.some() || p.chunk > 0 || p.group > 0 || p.at().waits == 0) return;
    if (makes(Mistake::fetches_before)) return;
    if (!wait_for_others(b, p.at().first_wait, p.at().waits, int(lane()), int(kWarp))) atomic_or(memory.stopped(), 1u);
    sync_warp();
  };
  int number = pair;
  if (pair == 1) go_on();
  Fetched<R, gradient> piece;
  if (p.some()) piece.load(p, first_rows, thread);
  for (; p.some(); number += 2) {
    piece.store(memory, p, number, thread);
    go_on();
    if (p.some()) go_on();
    if (p.some()) piece.load(p, first_rows, thread);
    if (!makes(Mistake::brings_late)) meet_at(number);
  }
  meet_at(number);  // one behind the last piece
}

}  // namespace lamina::kernels::cuda::resident
