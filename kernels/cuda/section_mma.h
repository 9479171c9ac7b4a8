// Products of a section on tensor cores, in the precisions tf32, 3xtf32 and bf16. Operands are rounded on their way from shared memory to
// registers; memory and all sums stay float32.
//
// A warp's tile is 16 columns of the result by 8 rows of the batch, because a block of a small batch has few rows. So weights are the first
// operand of each instruction and batch rows the second. Sums go along k in order, 8 values at a time (bf16: 16); the order within one
// instruction is the hardware's. In 3xtf32 each group of 8 is summed alone, small products first, and then added, because tensor cores
// truncate long sums where an addition rounds (Ootomo and Yokota, arXiv 2203.03341). An infinite operand may then give NaN.
#pragma once
#include "kernels/cuda/section_dense.h"
#include "kernels/cuda/section_update.h"

namespace lamina::kernels::cuda::resident {

constexpr int kMmaColumns = 16, kMmaRows = 8, kMmaTiles = 2;
static_assert(kMmaTiles * kThreads / int(kWarp) * kMmaColumns * kMmaRows >=
              kTiles * kTileRows * kThreads);  // a pass has no more (Block::cut)

// Location of an operand's elements: one column (or row) from `first` on, with stride `step` in k.
struct Along {
  const float* first;
  int step;
  LAMINA_DEVICE float at(int k) const { return first[k * step]; }
  LAMINA_DEVICE float at(int k, int count) const { return k < count ? first[k * step] : 0; }
};

struct TwoParts {
  unsigned big, small;
};
LAMINA_DEVICE TwoParts in_two_parts(float v) {
  const unsigned big = tf32_bits(v) & ~0x1fffu;
  return {big, tf32_bits(v - scalar::float_of(int(big)))};
}

// sums += the products for k to k + 8 (bf16: 16); from `count` on they are zeros. low, high: columns lane / 4 and 8 more; row: lane / 4.
template <Precision precision, bool ends>
LAMINA_DEVICE void multiply_tile(float (&sums)[4], const Along& low, const Along& high, const Along& row, int k, int count) {
  auto at = [&](const Along& from, int i) { return ends ? from.at(i, count) : from.at(i); };
  const int t = int(lane() % 4);
  if constexpr (precision == Precision::bf16) {
    auto pair = [&](const Along& from, int i) { return bf16_pair(at(from, i), at(from, i + 1)); };
    const int i = k + 2 * t;
    const unsigned a[4] = {pair(low, i), pair(high, i), pair(low, i + 8), pair(high, i + 8)}, b[2] = {pair(row, i), pair(row, i + 8)};
    mma_bf16(sums, a, b);
  } else {
    const int i = k + t;
    const float a[4] = {at(low, i), at(high, i), at(low, i + 4), at(high, i + 4)}, b[2] = {at(row, i), at(row, i + 4)};
    unsigned big_a[4], big_b[2];
    if constexpr (precision == Precision::tf32) {
      LAMINA_UNROLL
      for (int j = 0; j < 4; ++j) big_a[j] = tf32_bits(a[j]);
      LAMINA_UNROLL
      for (int j = 0; j < 2; ++j) big_b[j] = tf32_bits(b[j]);
      mma_tf32(sums, big_a, big_b);
    } else {
      unsigned small_a[4], small_b[2];
      LAMINA_UNROLL
      for (int j = 0; j < 4; ++j) {
        const TwoParts parts = in_two_parts(a[j]);
        big_a[j] = parts.big, small_a[j] = parts.small;
      }
      LAMINA_UNROLL
      for (int j = 0; j < 2; ++j) {
        const TwoParts parts = in_two_parts(b[j]);
        big_b[j] = parts.big, small_b[j] = parts.small;
      }
      float part[4] = {0, 0, 0, 0};
      mma_tf32(part, small_a, big_b);
      mma_tf32(part, big_a, small_b);
      mma_tf32(part, big_a, big_b);
      LAMINA_UNROLL
      for (int j = 0; j < 4; ++j) sums[j] = sums[j] + part[j];
    }
  }
}
template <Precision precision>
LAMINA_DEVICE void multiply_tile(float (&sums)[4], const Along& low, const Along& high, const Along& row, int count) {
  constexpr int depth = precision == Precision::bf16 ? 16 : 8;
  int k = 0;
  for (; k + depth <= count; k += depth) multiply_tile<precision, false>(sums, low, high, row, k, count);
  if (k < count) multiply_tile<precision, true>(sums, low, high, row, k, count);
}

// A thread's sums of a matrix with these columns and rows, in its warp's tiles. Element q, if has(q), is at column(q) and row(q).
struct MmaSums {
  static constexpr int kCount = kMmaTiles * 4;
  float v[kMmaTiles][4];
  int columns, rows, across;  // tiles of columns, side by side

  LAMINA_DEVICE MmaSums(int columns, int rows) : columns(columns), rows(rows), across((columns + kMmaColumns - 1) / kMmaColumns) {
    clear();
  }
  LAMINA_DEVICE void clear() {
    LAMINA_UNROLL
    for (int q = 0; q < kCount; ++q) v[q / 4][q % 4] = 0;
  }
  LAMINA_DEVICE int tile(int i) const { return int(warp_index()) + i * (kThreads / int(kWarp)); }
  LAMINA_DEVICE int column(int q) const { return tile(q / 4) % across * kMmaColumns + int(lane() / 4) + q % 4 / 2 * 8; }
  LAMINA_DEVICE int row(int q) const { return tile(q / 4) / across * kMmaRows + 2 * int(lane() % 4) + q % 2; }
  LAMINA_DEVICE bool has(int q) const { return column(q) < columns && row(q) < rows; }
  LAMINA_DEVICE float operator[](int q) const { return v[q / 4][q % 4]; }

  // v(column, row) += the sum over k < count of a[column * a_column + k * a_k] b[row * b_row + k * b_k]. Past the last column or row, the
  // last one is read again and its sums are unused.
  LAMINA_DEVICE void add(Precision precision, const float* a, int a_column, int a_k, const float* b, int b_row, int b_k, int count) {
    LAMINA_UNROLL
    for (int i = 0; i < kMmaTiles; ++i) {
      const int first = tile(i) % across * kMmaColumns + int(lane() / 4), row = tile(i) / across * kMmaRows;
      if (row >= rows) continue;  // uniform over the lanes
      const Along low{a + least(first, columns - 1) * a_column, a_k}, high{a + least(first + 8, columns - 1) * a_column, a_k};
      const Along other{b + least(row + int(lane() / 4), rows - 1) * b_row, b_k};
      if (precision == Precision::tf32)
        multiply_tile<Precision::tf32>(v[i], low, high, other, count);
      else if (precision == Precision::bf16)
        multiply_tile<Precision::bf16>(v[i], low, high, other, count);
      else
        multiply_tile<Precision::tf32x3>(v[i], low, high, other, count);
    }
  }
};

// The sums of an update: columns of weights, and rows of weights in place of batch rows.
struct MmaUpdateSums : MmaSums {
  LAMINA_DEVICE explicit MmaUpdateSums(int n) : MmaSums(n, update_rows(n)) {}
  LAMINA_DEVICE void add(const BlockStep& s, const float* xs, int leading, const float* zs, int batch) {
    MmaSums::add(s.precision, zs, 1, s.n, xs, 1, leading, batch);
  }
};

// product() of section_dense.h in another precision.
template <bool gradient>
LAMINA_DEVICE void product_by_tensor_cores(Block& b, const BlockStep& s) {
  const Rows mine = b.rows_of(s);
  const int inner = gradient ? s.n : s.k, outer = gradient ? s.k : s.n;
  if (s.k == 0 || s.n == 0) return product<gradient>(b, s);  // empty sums
  if (mine.size() <= 0) return;
  const auto cut = b.cut(s);
  const float* x = b.in<const float>(s, 0);
  float* y = b.out<float>(s, 0);
  const float* bias = !gradient && s.has_bias ? b.in<const float>(s, 2) : nullptr;
  const float* mask = gradient && s.has_mask ? b.in<const float>(s, 2) : nullptr;

  const bool held = s.waits == 0 && b.held_buffer == b.operand(s.first_in).buffer && b.held_rows == mine.size() && b.held_model == b.model;
  const int from = held ? b.held_at : 0, to = 1 - from;
  const int leading = held ? padded(inner) : cut.leading, kept_leading = padded(outer);
  const bool keep = mine.size() * kept_leading <= kRowFloats;
  float* kept = b.rows_memory(to);

  for (int begin = mine.begin; begin < mine.end; begin += cut.batch_rows) {
    const int rows = least(cut.batch_rows, mine.end - begin);
    // Stores the sums of the columns from `first` on, which are now complete.
    auto finish = [&](const MmaSums& sums, int first) {
      LAMINA_UNROLL
      for (int q = 0; q < MmaSums::kCount; ++q) {
        if (!sums.has(q)) continue;
        const int row = begin + sums.row(q), column = first + sums.column(q);
        float v = sums[q];
        if constexpr (gradient) {
          if (mask) v = through_activation(v, mask[(long long)row * outer + column], s.activation, s.scalar);
        } else {
          if (bias) v = v + load_shared_between_blocks(bias + column);  // another block may have updated it in a loop
          v = activate(v, s.activation, s.scalar);
        }
        y[(long long)row * outer + column] = v;
        if (keep) kept[(row - mine.begin) * kept_leading + column] = v;
      }
    };
    MmaSums sums(gradient ? least(cut.stage_rows, s.k) : s.n, rows);
    for (int k = 0; k < s.k; k += cut.stage_rows) {
      const int piece = least(cut.stage_rows, s.k - k);
      const float* w = b.take();
      const float* batch = b.rows_memory(from) + (held ? (begin - mine.begin) * leading : 0);
      if (!held && (!gradient || k == 0)) {
        bring(x + (long long)begin * inner + (gradient ? 0 : k), inner, rows, gradient ? s.n : piece, b.rows_memory(from), leading);
        sync_block();
      }
      if constexpr (gradient) {
        sums = MmaSums(piece, rows);
        sums.add(s.precision, w, padded(s.n), 1, batch, leading, 1, s.n);
        finish(sums, k);
      } else {
        sums.add(s.precision, w, 1, padded(s.n), batch + (held ? k : 0), leading, 1, piece);
      }
    }
    if constexpr (!gradient) finish(sums, 0);
  }
  b.held_buffer = keep ? b.operand(s.first_out).buffer : -1;
  b.held_at = to, b.held_rows = mine.size(), b.held_model = b.model;
}

}  // namespace lamina::kernels::cuda::resident
