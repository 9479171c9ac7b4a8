// The sums of an update over the rows of the batch: those of x and dz come to shared memory, 32 at once, and each thread multiplies its
// part of a tile of weights.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_reduce.h"

namespace lamina::kernels::cuda::resident {

// A tile of weights has 64 columns; a thread has two neighbouring ones, in `own` rows of its warp. Blocks that have a whole layer, such as
// those of an ensemble, take tiles of 64 rows.
constexpr int kTileColumns = section::kUpdateColumns, kWarps = kThreads / int(kWarp), kFewOwn = section::kUpdateRows / kWarps,
              kManyOwn = 2 * kFewOwn;
static_assert(kTileColumns == 2 * kWarp);
constexpr int kBatchRows = 32;  // rows in shared memory at once: those of x, then those of dz

// Read again behind each barrier, shared memory would cost more.
struct Operands {
  const float *x, *dz;
  const float *w = nullptr, *rate = nullptr;  // of w - rate * dw, if it is that
  float* to = nullptr;                        // for that, or for dw itself
  int batch, k, n;
};

// kBatchRows rows of x and dz on their way to shared memory. whole: the tile lies in the matrix, and all that is read by fours or twos is
// aligned.
template <int own, bool whole>
struct BatchRows {
  static constexpr int kTileRows = own * kWarps, kQuadsOfX = kTileRows / 4, kQuadsOfZ = kTileColumns / 4;
  static constexpr int kTimesOfX = kBatchRows * kQuadsOfX / kThreads, kTimesOfZ = kBatchRows * kQuadsOfZ / kThreads;
  static constexpr int kZAt = kBatchRows * kTileRows, kFloats = kZAt + kBatchRows * kTileColumns;

  // Four neighbours of a row; zeros beyond the last of them, and if there is no such row.
  LAMINA_DEVICE static void ask_four(float* to, bool is_there, const float* row, int first, int end) {
    if constexpr (whole) {
      copy_async<16>(to, row + first, is_there);
    } else {
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) copy_async<4>(to + i, row + first + i, is_there && first + i < end);
    }
  }
  // Rows from `first` of the batch; of x the columns rows.begin to rows.end, of dz those from `column`.
  LAMINA_DEVICE static void ask(float* memory, const Operands& o, int first, Rows rows, int column) {
    const unsigned t = thread_index();
    LAMINA_UNROLL
    for (int i = 0; i < kTimesOfX; ++i) {
      const int row = first + int(t / kQuadsOfX) + i * (kThreads / kQuadsOfX), at = rows.begin + int(t % kQuadsOfX) * 4;
      ask_four(memory + (t + i * kThreads) * 4, row < o.batch, o.x + (long long)row * o.k, at, rows.end);
    }
    LAMINA_UNROLL
    for (int i = 0; i < kTimesOfZ; ++i) {
      const int row = first + int(t / kQuadsOfZ) + i * (kThreads / kQuadsOfZ), at = column + int(t % kQuadsOfZ) * 4;
      ask_four(memory + kZAt + (t + i * kThreads) * 4, row < o.batch, o.dz + (long long)row * o.n, at, o.n);
    }
    commit_copies();
  }
};
static_assert(2 * BatchRows<kManyOwn, true>::kFloats <= kFreeFloats - kScratchFloats);

// dw of the thread's part of a tile over `count` rows of the batch in shared memory, and if it has the bias, db.
template <int own, bool of_bias>
LAMINA_DEVICE void sum_over_rows(const float* own_x, const float* own_z, int count, Two (&sums)[own], Two& db) {
  constexpr int kTileRows = own * kWarps, kTogether = 4, kAhead = own > kFewOwn ? 2 : 4;  // rows, read so many before
  Four a[kAhead][own / 4];
  Two z[kAhead];
  const auto read = [&](int r, int to) {
    LAMINA_UNROLL
    for (int i = 0; i < own / 4; ++i) a[to][i] = same_four_in_order(own_x + r * kTileRows + 4 * i);
    z[to] = two_in_order(own_z + r * kTileColumns);
  };
  LAMINA_UNROLL
  for (int r = 0; r < kAhead; ++r) read(r, r);
  const auto add = [&](int i) {
    LAMINA_UNROLL
    for (int c = 0; c < 2; ++c) {
      if constexpr (of_bias) db.v[c] += z[i].v[c];
      LAMINA_UNROLL
      for (int q = 0; q < own; ++q) sums[q].v[c] = fma(a[i][q / 4].v[q % 4], z[i].v[c], sums[q].v[c]);
    }
  };
  int r = 0;
  for (; r + kTogether < count; r += kTogether) {
    LAMINA_UNROLL
    for (int i = 0; i < kTogether; ++i) add(i % kAhead), read(r + i + kAhead, i % kAhead);
  }
  const auto end = [&](int rows) {
    LAMINA_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      if (i >= rows) break;
      add(i % kAhead);
      if (i + kAhead < kTogether) read(r + i + kAhead, i % kAhead);
    }
  };
  if (r + kTogether == count)
    end(kTogether);
  else [[unlikely]]
    end(count - r);
}

// The same over all rows of the batch, of which the first were asked for. memory: for two times kBatchRows. levels: in shared memory, for
// the bias's sums, which one warp has.
template <int own, bool whole>
LAMINA_DEVICE Two sum_over_batch(const Operands& o, float* memory, Rows rows, int column, Two (&sums)[own], bool of_bias, float* levels) {
  using Batch = BatchRows<own, whole>;
  const auto level = [&](int l, int c) -> float& { return levels[l * kTileColumns + 2 * int(lane()) + c]; };
  for (int first = 0;;) {
    const int count = least(kBatchRows, o.batch - first), odd = first / kBatchRows % 2 * Batch::kFloats;
    const float *own_x = memory + odd + warp_index() * own, *own_z = memory + odd + Batch::kZAt + 2 * lane();
    wait_copies<0>();
    sync_block();  // also, all are done with the rows before
    if (first + count < o.batch) Batch::ask(memory + Batch::kFloats - odd, o, first + count, rows, column);
    Two db{{-0.0f, -0.0f}};  // of these rows: -0 + x is x
    if (of_bias)
      sum_over_rows<own, true>(own_x, own_z, count, sums, db);
    else
      sum_over_rows<own, false>(own_x, own_z, count, sums, db);
    first += kBatchRows;
    if (o.batch <= kBatchRows) return db;
    if (of_bias) {
      const unsigned blocks = unsigned(first / kBatchRows);
      LAMINA_UNROLL
      for (int c = 0; c < 2; ++c) {
        const auto of_level = [&](int l) -> float& { return level(l, c); };
        push(section::Reduction::sum, blocks - 1, db.v[c], of_level);
        if (first >= o.batch) db.v[c] = total(section::Reduction::sum, blocks, of_level);
      }
    }
    if (first >= o.batch) return db;
  }
}

}  // namespace lamina::kernels::cuda::resident
