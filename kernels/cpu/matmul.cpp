// Matrix products. Small ones use the tiles directly. Large ones are blocked over k: a block of b is packed into panels as wide as a tile.
// One panel stays in L1 while a packed block of a's rows streams from L2. Each tile continues the sums in c, so the order of sums is that
// of k. Threads take rows or columns of c.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/section/table.h"
#include "runtime/core/error.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kHigh = 6;               // rows of a tile
constexpr int64_t kRowBytes = 216 * 1024;  // of a's block, copied: in the second cache
constexpr int64_t kFewBytes = 256 * 1024,
                  kManyBytes = 1536 * 1024;  // of b's block: in L2 for one block of rows, in L3 for many
constexpr int64_t kSmall = 64 * 64 * 96;     // multiplications; up to here packing costs more than it saves
constexpr int64_t kFewRowsOfA = 24;          // up to here a's rows are not packed
constexpr int64_t kSpanFloats = 1 << 20;     // block of a long sum's result
constexpr double kMatmulFlopsPerThread = 1e6;

// Block size in k: a panel fills three quarters of an L1 of 32 KB (64 KB for wide vectors).
constexpr int64_t inner_of(int64_t width, int64_t bytes) { return width * bytes > 64 ? 192 : 384; }

template <class T>
struct Operands {
  int64_t m, n, k;
  const T* a;
  int64_t lda;
  bool transpose_a;
  const T* b;
  int64_t ldb;
  bool transpose_b;
  T* c;
  int64_t ldc;
};

template <class T>
T* scratch(Scratch use, int64_t count) {
  return reinterpret_cast<T*>(thread_scratch(use, count * int64_t(sizeof(T) / sizeof(float))));
}

template <class T>
void pack_panel(const Tiles& tiles, const Operands<T>& o, int64_t p, int64_t inner, int64_t j, int64_t columns, T* to, int64_t width) {
  if (o.transpose_b) {
    tiles.transpose(o.b + j * o.ldb + p, o.ldb, columns, inner, to, width);
  } else {
    for (int64_t i = 0; i < inner; ++i) std::memcpy(to + i * width, o.b + (p + i) * o.ldb + j, size_t(columns) * sizeof(T));
  }
}

// Packs columns begin to end of b's rows p to p + inner, panel by panel. Reads rows sequentially and prefetches the next ones.
template <class T, int64_t width>
void pack_block(const Tiles& tiles, const Operands<T>& o, int64_t p, int64_t inner, int64_t begin, int64_t end, T* to) {
  if (o.transpose_b) {
    for (int64_t j = begin; j < end; j += width, to += width * inner)
      pack_panel(tiles, o, p, inner, j, std::min(width, end - j), to, width);
    return;
  }
  for (int64_t q = 0; q < inner; ++q) {
    const T* from = o.b + (p + q) * o.ldb;
    T* panel = to + q * width;
    int64_t j = begin;
    const T* later = q + 4 < inner ? from + 4 * o.ldb : from;
    for (; j + width <= end; j += width, panel += width * inner) {
      for (int64_t line = 0; line < width; line += 64 / int64_t(sizeof(T))) __builtin_prefetch(later + j + line);
      std::memcpy(panel, from + j, size_t(width) * sizeof(T));
    }
    if (j < end) std::memcpy(panel, from + j, size_t(end - j) * sizeof(T));
  }
}

// to[rows][inner]
template <class T>
void pack_rows(const Tiles& tiles, const Operands<T>& o, int64_t i, int64_t rows, int64_t p, int64_t inner, T* to) {
  if (o.transpose_a) return tiles.transpose(o.a + p * o.lda + i, o.lda, inner, rows, to, inner);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * inner, o.a + (i + r) * o.lda + p, size_t(inner) * sizeof(T));
}

// How k is split. Blocks continue each other's sums; in sum blocks they are summed separately and added.
struct Cut {
  int64_t inner_most;
  bool sum_blocks;
};

template <class T, int64_t width>
void blocked(const Tiles& tiles, const Operands<T>& o, const Cut& cut) {
  const int64_t inner_most = cut.inner_most;
  const int64_t most_rows = kRowBytes / int64_t(sizeof(T)) / inner_most / kHigh * kHigh;
  const int64_t blocks = (o.m + most_rows - 1) / most_rows, rows_each = (o.m + blocks * kHigh - 1) / (blocks * kHigh) * kHigh;
  const int64_t most_columns = std::max(width, (blocks > 1 ? kManyBytes : kFewBytes) / int64_t(sizeof(T)) / inner_most / width * width);
  const bool copies_rows = o.transpose_a || (o.m > kFewRowsOfA && o.n > width);  // one panel reads each row once
  T* panels = scratch<T>(Scratch::panel, std::min(most_columns, (o.n + width - 1) / width * width) * std::min(inner_most, o.k));
  T* block = scratch<T>(Scratch::block, copies_rows ? std::min(rows_each, o.m) * std::min(inner_most, o.k) : 0);
  for (int64_t p = 0; p == 0 || p < o.k; p += inner_most) {
    const int64_t inner = std::min(inner_most, o.k - p);
    for (int64_t begin = 0; begin < o.n; begin += most_columns) {
      const int64_t end = std::min(o.n, begin + most_columns);
      pack_block<T, width>(tiles, o, p, inner, begin, end, panels);
      for (int64_t i = 0; i < o.m; i += rows_each) {
        Product<T> q;
        q.m = std::min(rows_each, o.m - i), q.k = inner;
        q.a = o.a + i * o.lda + p, q.lda = o.lda;
        if (copies_rows) {
          if (blocks > 1 || begin == 0) pack_rows(tiles, o, i, q.m, p, inner, block);
          q.a = block, q.lda = inner;
        }
        q.ldb = width, q.ldc = o.ldc, q.accumulate = p > 0 && !cut.sum_blocks, q.add = p > 0 && cut.sum_blocks;
        const T* panel = panels;
        for (int64_t j = begin; j < end; j += width, panel += width * inner) {
          q.n = std::min(width, end - j), q.b = panel, q.c = o.c + i * o.ldc + j;
          q.ahead = panel + width * inner, q.ld_ahead = width;
          tiles.multiply(q);
        }
      }
    }
  }
}

template <class T>
void direct(const Tiles& tiles, const Operands<T>& o, const Cut& cut) {
  Product<T> q;
  q.m = o.m, q.k = o.k;
  q.a = o.a, q.lda = o.lda, q.transpose_a = o.transpose_a;
  q.ldc = o.ldc;
  const int64_t inner_most = cut.inner_most;
  if (!o.transpose_b) {
    q.n = o.n, q.b = o.b, q.ldb = o.ldb, q.c = o.c;
    if (!cut.sum_blocks) return tiles.multiply(q);
    for (int64_t p = 0; p < o.k; p += inner_most) {
      q.k = std::min(inner_most, o.k - p);
      q.a = o.transpose_a ? o.a + p * o.lda : o.a + p;
      q.b = o.b + p * o.ldb;
      q.add = p > 0;
      tiles.multiply(q);
    }
    return;
  }
  const int64_t width = std::max<int64_t>(tiles.template panel<T>(), o.m == 1 ? 64 : 0);
  T* panel = scratch<T>(Scratch::panel, width * std::min(inner_most, o.k));
  for (int64_t j = 0; j < o.n; j += width) {
    q.n = std::min(width, o.n - j), q.b = panel, q.ldb = width, q.c = o.c + j;
    for (int64_t p = 0; p == 0 || p < o.k; p += inner_most) {
      q.k = std::min(inner_most, o.k - p);
      q.a = o.transpose_a ? o.a + p * o.lda : o.a + p;
      q.accumulate = p > 0 && !cut.sum_blocks, q.add = p > 0 && cut.sum_blocks;
      pack_panel(tiles, o, p, q.k, j, q.n, panel, width);
      tiles.multiply(q);
    }
  }
}

// The first elements of a product whose result is one row, or one column, from a matrix whose rows are in the order of k. Returns their
// number.
int64_t times_vector(const Tiles& tiles, const Operands<float>& o) {
  Product<float> p{.m = 1, .k = o.k, .lda = o.k, .c = o.c};
  if (o.m == 1 && o.transpose_b && (!o.transpose_a || o.lda == 1))
    p.n = o.n, p.a = o.a, p.b = o.b, p.ldb = o.ldb;
  else if (o.n == 1 && !o.transpose_a && o.ldc == 1 && (o.transpose_b || o.ldb == 1))
    p.n = o.m, p.a = o.b, p.b = o.a, p.ldb = o.lda;
  else
    return 0;
  p.ldc = p.n;
  return tiles.multiply_row_f32(p);
}

template <class T>
void product_in(const Tiles& tiles, Operands<T> o, bool sum_blocks) {
  if constexpr (sizeof(T) == 4)
    if (!sum_blocks && (o.m == 1 || o.n == 1)) {
      const int64_t done = times_vector(tiles, o);
      if (o.m == 1)
        o.n -= done, o.b += done * o.ldb;
      else
        o.m -= done, o.a += done * o.lda;
      o.c += done;
      if (o.m == 0 || o.n == 0) return;
    }
  const Cut cut{sum_blocks ? kSumBlock : inner_of(tiles.template panel<T>(), sizeof(T)), sum_blocks};
  if (o.m <= 2 * kHigh || (o.m * o.n * o.k <= kSmall && o.k <= 512)) return direct(tiles, o, cut);
  switch (tiles.template panel<T>()) {  // constants make copying a row of a panel a few moves
    case 64: return blocked<T, 64>(tiles, o, cut);
    case 32: return blocked<T, 32>(tiles, o, cut);
    case 16: return blocked<T, 16>(tiles, o, cut);
    case 8: return blocked<T, 8>(tiles, o, cut);
    case 4: return blocked<T, 4>(tiles, o, cut);
    default: internal_error(cat("no matrix product with panels of ", tiles.template panel<T>(), " columns"));
  }
}

template <class T>
void product(const Tiles& tiles, const Operands<T>& o) {
  if (o.m <= 0 || o.n <= 0) return;
  if (sizeof(T) > 4 || o.k <= kLongSum) return product_in(tiles, o, false);
  const int64_t high = std::clamp(kSpanFloats / o.n / kHigh * kHigh, 16 * kHigh, std::max(o.m, 16 * kHigh));
  for (int64_t i = 0; i < o.m; i += high) {
    Operands<T> rows = o;
    rows.m = std::min(high, o.m - i), rows.a = o.a + (o.transpose_a ? i : i * o.lda), rows.c = o.c + i * o.ldc;
    add_spans(rows.m, rows.n, rows.k, kSumSpan, rows.c, rows.ldc, [&](int64_t begin, int64_t count, T* to, int64_t ld_to) {
      Operands<T> span = rows;
      span.a += begin * (o.transpose_a ? o.lda : 1), span.b += begin * (o.transpose_b ? 1 : o.ldb), span.k = count;
      span.c = to, span.ldc = ld_to;
      product_in(tiles, span, true);
    });
  }
}

template <class T>
struct MatmulWork {
  const Tiles& tiles;
  const Operands<T>& operands;
};

template <class T>
void share(void* context, int thread, int threads, ThreadPool::Barrier&) {
  const auto& shared = *static_cast<MatmulWork<T>*>(context);
  Operands<T> o = shared.operands;
  if (o.m >= o.n) {
    const int64_t strips = (o.m + kHigh - 1) / kHigh, begin = std::min(o.m, strips * thread / threads * kHigh),
                  end = std::min(o.m, strips * (thread + 1) / threads * kHigh);
    o.a += o.transpose_a ? begin : begin * o.lda;
    o.c += begin * o.ldc;
    o.m = end - begin;
  } else {
    const int64_t width = shared.tiles.template panel<T>(), panels = (o.n + width - 1) / width;
    const int64_t begin = std::min(o.n, panels * thread / threads * width), end = std::min(o.n, panels * (thread + 1) / threads * width);
    o.b += o.transpose_b ? begin * o.ldb : begin;
    o.c += begin;
    o.n = end - begin;
  }
  product(shared.tiles, o);
}

template <class T, class Sum>
void plain_in(const Operands<T>& o) {
  std::vector<Sum> row(static_cast<size_t>(o.n));
  for (int64_t i = 0; i < o.m; ++i) {
    std::fill(row.begin(), row.end(), Sum(0));
    for (int64_t p = 0; p < o.k; ++p) {
      const Sum left = Sum(o.transpose_a ? o.a[p * o.lda + i] : o.a[i * o.lda + p]);
      for (int64_t j = 0; j < o.n; ++j) row[size_t(j)] += left * Sum(o.transpose_b ? o.b[j * o.ldb + p] : o.b[p * o.ldb + j]);
    }
    for (int64_t j = 0; j < o.n; ++j) o.c[i * o.ldc + j] = T(row[size_t(j)]);
  }
}

// Half types are computed in float (long sums in double) and rounded once; integers wrap.
template <class T>
void plain(const Operands<T>& o) {
  if constexpr (std::is_integral_v<T>)
    return plain_in<T, std::make_unsigned_t<T>>(o);
  else
    return o.k > kLongSum ? plain_in<T, double>(o) : plain_in<T, float>(o);
}

}  // namespace

template <class T>
void matmul(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, bool transpose_a, const T* b, int64_t ldb, bool transpose_b, T* c,
            int64_t ldc, Device device) {
  const Operands<T> o{m, n, k, a, lda, transpose_a, b, ldb, transpose_b, c, ldc};
  if constexpr (std::is_floating_point_v<T>) {
    const Tiles& t = tiles();
    const int threads = int(std::min(2.0 * double(m) * double(n) * double(k) / kMatmulFlopsPerThread, 1024.0));
    MatmulWork<T> shared{t, o};
    if (threads > 1)
      ThreadPool::of(device).run(threads, share<T>, &shared);
    else
      product(t, o);
  } else {
    plain(o);
  }
}

template <class T>
void multiply(const Tiles& tiles, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, bool transpose_a, const T* b, int64_t ldb,
              bool transpose_b, T* c, int64_t ldc) {
  product(tiles, Operands<T>{m, n, k, a, lda, transpose_a, b, ldb, transpose_b, c, ldc});
}
template void multiply<float>(const Tiles&, int64_t, int64_t, int64_t, const float*, int64_t, bool, const float*, int64_t, bool, float*,
                              int64_t);

#define LAMINA_MATMUL(T) \
  template void matmul<T>(int64_t, int64_t, int64_t, const T*, int64_t, bool, const T*, int64_t, bool, T*, int64_t, Device);
LAMINA_MATMUL(float)
LAMINA_MATMUL(double)
LAMINA_MATMUL(f16)
LAMINA_MATMUL(bf16)
LAMINA_MATMUL(int32_t)
LAMINA_MATMUL(int64_t)
#undef LAMINA_MATMUL

}  // namespace lamina::kernels::cpu
