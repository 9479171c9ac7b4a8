// dense_update: dw = x^T dz and db, followed by the optimizer's arithmetic, without writing dw to memory. An element of dw sums over the
// rows of the batch in order; db as in kernels/reduce.h.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_code.h"
#include "kernels/cuda/section_reduce.h"

namespace lamina::kernels::cuda::resident {

constexpr int kUpdateRows = 8;  // weight rows per thread

// Threads of a pass over rows of weights [k, n]: one row of threads per kUpdateRows rows.
LAMINA_DEVICE int update_columns(int n) { return most(1, (n + int(kWarp) - 1) / int(kWarp)) * int(kWarp); }
LAMINA_DEVICE int update_rows(int n) { return kThreads / update_columns(n) * kUpdateRows; }

// A thread's sums in a pass: one column of kUpdateRows rows.
struct ColumnSums {
  static constexpr int kCount = kUpdateRows;
  float v[kCount];
  int of_column, group;
  LAMINA_DEVICE explicit ColumnSums(int n)
      : of_column(int(thread_index()) % update_columns(n)), group(int(thread_index()) / update_columns(n)) {}
  LAMINA_DEVICE void clear() {
    LAMINA_UNROLL
    for (int q = 0; q < kCount; ++q) v[q] = 0;
  }
  LAMINA_DEVICE int column(int) const { return of_column; }
  LAMINA_DEVICE int row(int q) const { return group * kUpdateRows + q; }
  LAMINA_DEVICE float operator[](int q) const { return v[q]; }
  // xs: [batch, leading], with one column per row of the pass; zs: [batch, n].
  LAMINA_DEVICE void add(const BlockStep& s, const float* xs, int leading, const float* zs, int batch) {
    if (of_column >= s.n || group * kUpdateRows >= leading) return;
    for (int r = 0; r < batch; ++r) {
      const float z = zs[r * s.n + of_column];
      LAMINA_UNROLL
      for (int h = 0; h < kUpdateRows; h += 4) {
        const Four a = four(xs + r * leading + group * kUpdateRows + h);
        LAMINA_UNROLL
        for (int q = 0; q < 4; ++q) v[h + q] = fma(a.v[q], z, v[h + q]);
      }
    }
  }
};

LAMINA_DEVICE void update(Block& b, const BlockStep& s) {
  const int part = s.partition == Partition::models ? 0 : int(block_index()) - s.first_block,
            parts = s.partition == Partition::models ? 1 : s.blocks;
  const float* x = b.in<const float>(s, 0);
  const float* dz = b.in<const float>(s, 1);
  const int t = int(thread_index());
  int results = 0;
  if (s.code >= 0) {
    const Code code(b, s.code, s.first_in + 2, s.first_out, true, s.n);
    results = code.outputs();
    const int pass_rows = update_rows(s.n);  // of weights
    ColumnSums sums(s.n);
    const int leading = pass_rows, batch_rows = most(1, kRingFloats / (leading + s.n));
    float* xs = b.ring();
    float* zs = b.ring() + batch_rows * leading;
    const Rows mine = share(s.k, part, parts);
    const bool descends = s.descent_w >= 0;
    const float rate = descends ? load_shared_between_blocks(b.in<const float>(s, 1 + s.descent_rate)) : 0;
    const float* w = descends ? b.in<const float>(s, 1 + s.descent_w) : nullptr;
    float* to = descends ? b.out<float>(s, 0) : nullptr;
    for (int begin = mine.begin; begin < mine.end && s.n > 0; begin += pass_rows) {
      const int rows = least(pass_rows, mine.end - begin);
      sums.clear();
      for (int first = 0; first < s.rows; first += batch_rows) {
        const int batch = least(batch_rows, s.rows - first);
        sync_block();  // all threads are done with that memory
        for (int i = t; i < batch * leading; i += kThreads) {
          const int r = i / leading, c = i - r * leading;
          xs[i] = c < rows ? load_shared_between_blocks(x + (long long)(first + r) * s.k + begin + c) : 0;
        }
        for (int i = t; i < batch * s.n; i += kThreads) zs[i] = load_shared_between_blocks(dz + (long long)first * s.n + i);
        sync_block();
        sums.add(s, xs, leading, zs, batch);
      }
      LAMINA_UNROLL
      for (int q = 0; q < ColumnSums::kCount; ++q) {
        const int row = sums.row(q), column = sums.column(q);
        const bool active = column < s.n && row < rows;
        if (descends) {
          const long long at = (long long)(begin + row) * s.n + column;
          if (active) to[at] = load_shared_between_blocks(w + at) - rate * sums[q];
        } else {
          code.element(begin + row, column, sums[q], active);
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
      code.element(0, column, db, active);
    }
  }
}

}  // namespace lamina::kernels::cuda::resident
