// Dense layers and the gradients of their inputs, on a block's rows of the batch. Sums go through k (or n) in order, as fused multiply-adds
// from 0: the bits of kernels/cpu/tiles.h.
#pragma once
#include "kernels/cuda/activate.h"
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

struct Four {
  float v[4];
};
static_assert(sizeof(Four) == 16);
#if defined(__CUDACC__)
LAMINA_DEVICE Four four(const float* p) {
  const float4 f = *reinterpret_cast<const float4*>(p);
  return {{f.x, f.y, f.z, f.w}};
}
#else
LAMINA_DEVICE Four four(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
#endif

// A thread's sums: one column, up to two groups of four rows.
constexpr int kTiles = 2, kTileRows = 4;
struct Sums {
  float v[kTiles][kTileRows];
};

// sums += x[row][0..count) * w[0..count) of the thread's column. `transposed`: the column is contiguous in w.
template <int tiles, int rows, bool transposed>
LAMINA_DEVICE void multiply(Sums& sums, const float* const (&x)[kTiles], int x_leading, const float* w, int w_leading, int count) {
  int q = 0;
  for (; q + 4 <= count; q += 4) {
    Four b;
    if constexpr (transposed) {
      b = four(w + q);
    } else {
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) b.v[i] = w[(q + i) * w_leading];
    }
    LAMINA_UNROLL
    for (int t = 0; t < tiles; ++t) {
      LAMINA_UNROLL
      for (int r = 0; r < rows; ++r) {
        const Four a = four(x[t] + r * x_leading + q);
        LAMINA_UNROLL
        for (int i = 0; i < 4; ++i) sums.v[t][r] = fma(a.v[i], b.v[i], sums.v[t][r]);
      }
    }
  }
  for (; q < count; ++q) {
    const float b = transposed ? w[q] : w[q * w_leading];
    LAMINA_UNROLL
    for (int t = 0; t < tiles; ++t) {
      LAMINA_UNROLL
      for (int r = 0; r < rows; ++r) sums.v[t][r] = fma(x[t][r * x_leading + q], b, sums.v[t][r]);
    }
  }
}

// One pass over a step's weights: the thread's rows.
struct Pass {
  int rows;           // of the batch, in this pass
  int tiles;          // this thread's groups of four rows; the last may have fewer
  int last;           // rows of the last group
  int first[kTiles];  // first row of each group in the pass
  LAMINA_DEVICE Pass(int rows, int group, int groups) : rows(rows), tiles(0), last(0) {
    LAMINA_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      first[t] = (group + t * groups) * kTileRows;
      if (first[t] >= rows) continue;
      tiles = t + 1;
      last = least(kTileRows, rows - first[t]);
    }
  }
  LAMINA_DEVICE bool has(int t, int r) const { return t < tiles && first[t] + r < rows; }
};

template <bool transposed>
LAMINA_DEVICE void multiply(Sums& sums, const Pass& pass, const float* x, int x_leading, const float* w, int w_leading, int count) {
  if (pass.tiles == 0) return;
  const float* from[kTiles];
  LAMINA_UNROLL
  for (int t = 0; t < kTiles; ++t) from[t] = x + pass.first[t] * x_leading;
  if (pass.tiles == 2 && pass.last == kTileRows) return multiply<2, 4, transposed>(sums, from, x_leading, w, w_leading, count);
  // Ragged end: one group of rows after the other, in the first group's registers.
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (int t = 0; t < kTiles; ++t) {
    const int rows = t + 1 < pass.tiles ? kTileRows : t < pass.tiles ? pass.last : 0;
    if (rows == 1) multiply<1, 1, transposed>(sums, from, x_leading, w, w_leading, count);
    if (rows == 2) multiply<1, 2, transposed>(sums, from, x_leading, w, w_leading, count);
    if (rows == 3) multiply<1, 3, transposed>(sums, from, x_leading, w, w_leading, count);
    if (rows == 4) multiply<1, 4, transposed>(sums, from, x_leading, w, w_leading, count);
    from[0] = from[1];
    LAMINA_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      const float other = sums.v[0][r];
      sums.v[0][r] = sums.v[1][r], sums.v[1][r] = other;
    }
  }
}

LAMINA_DEVICE void clear(Sums& sums) {
  LAMINA_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    LAMINA_UNROLL
    for (int r = 0; r < kTileRows; ++r) sums.v[t][r] = 0;
  }
}

// Copies rows x count floats to shared memory. Data that another block wrote in this launch is read past the L1 cache.
LAMINA_DEVICE void bring(const float* from, long long from_leading, int rows, int count, float* to, int to_leading) {
  for (int i = int(thread_index()); i < rows * count; i += kThreads) {
    const int r = i / count, c = i - r * count;
    to[r * to_leading + c] = load_shared_between_blocks(from + r * from_leading + c);
  }
}

// y = act(x w + b) and dx = (dz w^T) * act'(y), for this block's rows of one model.
template <bool gradient>
LAMINA_DEVICE void product(Block& b, const BlockStep& s) {
  const Rows mine = b.rows_of(s);
  const int inner = gradient ? s.n : s.k, outer = gradient ? s.k : s.n;  // length of a sum; sums per row
  if (mine.size() <= 0 || outer == 0) return;
  const auto cut = b.cut(s);
  const float* x = b.in<const float>(s, 0);
  float* y = b.out<float>(s, 0);
  const float* bias = !gradient && s.has_bias ? b.in<const float>(s, 2) : nullptr;
  const float* mask = gradient && s.has_mask ? b.in<const float>(s, 2) : nullptr;
  const int group = int(thread_index()) / cut.columns, column = int(thread_index()) % cut.columns;

  const bool held = s.waits == 0 && b.held_buffer == b.operand(s.first_in).buffer && b.held_rows == mine.size() && b.held_model == b.model;
  const int from = held ? b.held_at : 0, to = 1 - from;
  const int held_leading = padded(inner), kept_leading = padded(outer);
  const bool keep = mine.size() * kept_leading <= kRowFloats;
  float* kept = b.rows_memory(to);

  auto finish = [&](float v, int row, int column_of_result, float masked, float biased) {
    if constexpr (gradient) {
      if (mask) v = through_activation(v, masked, s.activation, s.scalar);
    } else {
      if (bias) v = v + biased;
      v = activate(v, s.activation, s.scalar);
    }
    y[(long long)row * outer + column_of_result] = v;
    if (keep) kept[(row - mine.begin) * kept_leading + column_of_result] = v;
  };

  if (s.k == 0 || s.n == 0) {  // empty sums
    for (long long i = thread_index(); i < (long long)mine.size() * outer; i += kThreads) {
      const int row = mine.begin + int(i / outer), c = int(i % outer);
      finish(0, row, c, mask ? mask[(long long)row * outer + c] : 0, bias ? load_shared_between_blocks(bias + c) : 0);
    }
  } else {
    for (int begin = mine.begin; begin < mine.end; begin += cut.batch_rows) {
      const Pass pass(group < cut.groups ? least(cut.batch_rows, mine.end - begin) : 0, group, cut.groups);
      Sums sums;
      clear(sums);
      for (int k = 0; k < s.k; k += cut.stage_rows) {
        const int rows = least(cut.stage_rows, s.k - k);
        const float* w = b.take();
        const float* batch = b.rows_memory(from) + (held ? (begin - mine.begin) * held_leading : 0);
        const int leading = held ? held_leading : cut.leading;
        if (!held && (!gradient || k == 0)) {
          bring(x + (long long)begin * inner + (gradient ? 0 : k), inner, least(cut.batch_rows, mine.end - begin), gradient ? s.n : rows,
                b.rows_memory(from), cut.leading);
          sync_block();
        }
        if constexpr (gradient) {
          const bool inside = column < rows;
          Sums masks;  // loaded before the sums are computed
          clear(masks);
          if (mask && inside) {
            LAMINA_UNROLL
            for (int t = 0; t < kTiles; ++t) {
              LAMINA_UNROLL
              for (int r = 0; r < kTileRows; ++r)
                if (pass.has(t, r)) masks.v[t][r] = mask[(long long)(begin + pass.first[t] + r) * outer + k + column];
            }
          }
          clear(sums);
          if (!inside) continue;
          multiply<true>(sums, pass, batch, leading, w + column * padded(s.n), 0, s.n);
          LAMINA_UNROLL
          for (int t = 0; t < kTiles; ++t) {
            LAMINA_UNROLL
            for (int r = 0; r < kTileRows; ++r)
              if (pass.has(t, r)) finish(sums.v[t][r], begin + pass.first[t] + r, k + column, masks.v[t][r], 0);
          }
        } else {
          if (column < s.n) multiply<false>(sums, pass, batch + (held ? k : 0), leading, w + column, padded(s.n), rows);
        }
      }
      if constexpr (!gradient) {
        if (column < s.n) {
          const float biased = bias ? load_shared_between_blocks(bias + column) : 0;  // another block may have updated it in a loop
          LAMINA_UNROLL
          for (int t = 0; t < kTiles; ++t) {
            LAMINA_UNROLL
            for (int r = 0; r < kTileRows; ++r)
              if (pass.has(t, r)) finish(sums.v[t][r], begin + pass.first[t] + r, column, 0, biased);
          }
        }
      }
    }
  }
  b.held_buffer = keep ? b.operand(s.first_out).buffer : -1;
  b.held_at = to, b.held_rows = mine.size(), b.held_model = b.model;
}

}  // namespace lamina::kernels::cuda::resident
