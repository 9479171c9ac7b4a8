// dense_update: dw = x^T dz and db, followed by the optimizer's arithmetic, without writing dw to memory. An element of dw sums over the
// rows of the batch in order; db as in kernels/reduce.h.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_code.h"
#include "kernels/cuda/section_reduce.h"

namespace lamina::kernels::cuda::resident {

// A tile of weights: 64 columns, and 8 rows for each group of 64 threads. A thread has the 8 rows of its column.
constexpr int kTileColumns = section::kUpdateColumns, kTileRows = section::kUpdateRows, kOwnRows = kTileRows * kTileColumns / kThreads;
static_assert(kOwnRows == 8 && kOwnRows % kElements == 0);
constexpr int kBatchRows = 32, kAhead = 4;  // rows that are in shared memory at once, x, and dz behind it; that are in registers

// Sizes of the step. Read again behind each barrier, shared memory would cost more.
struct Sizes {
  int batch, k, n;
};

// A thread's part of kBatchRows rows of x and dz, on its way from global to shared memory.
struct BatchRows {
  static constexpr int kQuadsOfX = kTileRows / 4, kQuadsOfZ = kTileColumns / 4, kTimes = kBatchRows * kQuadsOfZ / kThreads;
  static_assert(kBatchRows * kQuadsOfX == kThreads && kTimes * kThreads == kBatchRows * kQuadsOfZ);
  Four x, z[kTimes];

  // Four neighbours of a row, zero beyond the last of them.
  LAMINA_DEVICE static Four four_of(const float* row, int first, int end, bool aligned) {
    if (aligned && first + 4 <= end) return four_shared_between_blocks(row + first);
    Four f;
    LAMINA_UNROLL
    for (int i = 0; i < 4; ++i) f.v[i] = first + i < end ? load_shared_between_blocks(row + first + i) : 0;
    return f;
  }
  LAMINA_DEVICE static bool by_fours(const float* p, int leading) { return leading % 4 == 0 && reinterpret_cast<size_t>(p) % 16 == 0; }
  // Rows from `first` of the batch; of x the columns rows.begin to rows.end, of dz those from `column`.
  LAMINA_DEVICE void load(Sizes s, const float* xs, const float* zs, int first, Rows rows, int column) {
    const int t = int(thread_index());
    const int r = first + t / kQuadsOfX;
    const float* from = xs + (long long)r * s.k + rows.begin;
    x = r < s.batch ? four_of(from, t % kQuadsOfX * 4, rows.size(), by_fours(xs + rows.begin, s.k)) : Four{};
    LAMINA_UNROLL
    for (int i = 0; i < kTimes; ++i) {
      const int row = first + t / kQuadsOfZ + i * (kThreads / kQuadsOfZ);
      z[i] = row < s.batch ? four_of(zs + (long long)row * s.n, column + t % kQuadsOfZ * 4, s.n, by_fours(zs, s.n)) : Four{};
    }
  }
  LAMINA_DEVICE void store(float* memory) const {
    const int t = int(thread_index());
    put_four(memory + t * 4, x);
    LAMINA_UNROLL
    for (int i = 0; i < kTimes; ++i) put_four(memory + kBatchRows * kTileRows + (t + i * kThreads) * 4, z[i]);
  }
};

// dw of the thread's part of a tile, over all rows of the batch.
LAMINA_DEVICE void sum_over_batch(Sizes s, const float* x, const float* dz, float* memory, Rows rows, int column, float (&sums)[kOwnRows]) {
  const int t = int(thread_index());
  const float* own_x = memory + t / kTileColumns * kOwnRows;
  const float* own_z = memory + kBatchRows * kTileRows + t % kTileColumns;
  BatchRows batch;
  batch.load(s, x, dz, 0, rows, column);
  for (int first = 0; first < s.batch; first += kBatchRows) {
    sync_block();  // all threads are done with that memory
    batch.store(memory);
    sync_block();
    const int count = least(kBatchRows, s.batch - first);
    if (first + count < s.batch) batch.load(s, x, dz, first + count, rows, column);
    // Rows are read some rows ahead, also beyond the last one.
    Four a[kAhead][kOwnRows / 4];
    float z[kAhead];
    const auto read = [&](int r, int to) {
      LAMINA_UNROLL
      for (int i = 0; i < kOwnRows / 4; ++i) a[to][i] = same_four_in_order(own_x + r * kTileRows + 4 * i);
      z[to] = own_z[r * kTileColumns];
    };
    LAMINA_UNROLL
    for (int r = 0; r < kAhead; ++r) read(r, r);
    const auto add = [&](int i) {
      LAMINA_UNROLL
      for (int q = 0; q < kOwnRows; ++q) sums[q] = fma(a[i][q / 4].v[q % 4], z[i], sums[q]);
    };
    int r = 0;
    for (; r + kAhead <= count; r += kAhead) {
      LAMINA_UNROLL
      for (int i = 0; i < kAhead; ++i) add(i), read(r + i + kAhead, i);
    }
    LAMINA_UNROLL
    for (int i = 0; i < kAhead - 1; ++i)
      if (r + i < count) add(i);
  }
}
// f(q) for the rows of the thread's column that are there.
template <class F>
LAMINA_DEVICE void for_own_rows(int count, const F& f) {
  if (count == kOwnRows) {
    LAMINA_UNROLL
    for (int q = 0; q < kOwnRows; ++q) f(q);
  } else {
    LAMINA_UNROLL
    for (int q = 0; q < kOwnRows; ++q)
      if (q < count) f(q);
  }
}

LAMINA_DEVICE void update(Block& b, const BlockStep& s) {
  const bool by_models = s.partition == Partition::models;
  const int part = by_models ? 0 : int(block_index()) - s.first_block, parts = by_models ? 1 : s.blocks;
  const float* x = b.in<const float>(s, 0);
  const float* dz = b.in<const float>(s, 1);
  const int t = int(thread_index());
  const Sizes sizes{s.rows, s.k, s.n};
  int results = 0;
  if (s.code >= 0) {
    const Code code(b, s.code, s.first_in + 2, s.first_out, true, s.n);
    results = code.outputs();
    const bool descends = s.descent_w >= 0;
    const float* rate = descends ? b.in<const float>(s, 1 + s.descent_rate) : nullptr;
    const float* w = descends ? b.in<const float>(s, 1 + s.descent_w) : nullptr;
    float* to = descends ? b.out<float>(s, 0) : nullptr;
    const Rows mine = section::share(sizes.k, part, parts);
    for (int column0 = 0; column0 < sizes.n; column0 += kTileColumns) {
      for (int begin = mine.begin; begin < mine.end; begin += kTileRows) {
        const Rows rows{begin, least(begin + kTileRows, mine.end)};
        const int column = column0 + t % kTileColumns, row = begin + t / kTileColumns * kOwnRows;
        const int count = column < sizes.n ? least(kOwnRows, rows.end - row) : 0;
        const long long at = (long long)row * sizes.n + column;
        float sums[kOwnRows] = {};
        if (descends) {
          float values[kOwnRows] = {};
          for_own_rows(count, [&](int q) { values[q] = load_shared_between_blocks(w + at + q * sizes.n); });
          const float step = load_shared_between_blocks(rate);
          sum_over_batch(sizes, x, dz, b.ring(), rows, column0, sums);
          LAMINA_UNROLL
          for (int q = 0; q < kOwnRows; ++q) values[q] -= step * sums[q];
          for_own_rows(count, [&](int q) { to[at + q * sizes.n] = values[q]; });
        } else {
          sum_over_batch(sizes, x, dz, b.ring(), rows, column0, sums);
          sync_block();  // that memory becomes registers
          LAMINA_UNROLL
          for (int q = 0; q < kOwnRows; q += kElements)
            code.elements(at + (long long)q * sizes.n, sizes.n, least(kElements, count - q),
                          Four{{sums[q], sums[q + 1], sums[q + 2], sums[q + 3]}});
        }
      }
    }
  }
  if (!s.has_bias || part != parts - 1) return;
  const Code code(b, s.code2, s.first_in + 2 + s.extras, s.first_out + results, true, s.n);
  const bool descends = s.descent_w2 >= 0;
  for (int first = 0; first < s.n; first += kThreads) {
    const int column = first + t;
    const bool active = column < s.n;
    sync_block();  // the scratch memory serves sums and programs
    const float db = column_result(section::Reduction::sum, dz, s.rows, s.n, column, active, b.scratch());
    sync_block();
    if (descends) {
      const int extras = 1 + s.extras;  // before the bias's own extras
      const float rate = load_shared_between_blocks(b.in<const float>(s, extras + s.descent_rate2));
      const float* w = b.in<const float>(s, extras + s.descent_w2);
      if (active) b.out<float>(s, results)[column] = load_shared_between_blocks(w + column) - rate * db;
    } else {
      code.elements(column, 0, active, Four{{db, 0, 0, 0}});
    }
  }
}

}  // namespace lamina::kernels::cuda::resident
