// Matrix products. Small ones go to the tiles as they are. Large ones are blocked: a panel of b (k block x tile width) is copied to lie in
// the first cache, strips of a (tile height x k block) are copied to be read in a row, and each tile goes on from what c holds, so the
// order of sums stays that of k. Threads take rows or columns of c.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/dense.h"
#include "kernels/section/table.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kInner = 256;            // of k in a block
constexpr int64_t kHigh = 6;               // rows of a strip
constexpr int64_t kRowsPerBlock = 96;      // of a, packed: 96 KB, in the second cache
constexpr int64_t kSmall = 64 * 64 * 96;   // multiplications up to which copying costs more than it saves
constexpr double kFlopsPerThread = 1e6;

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

// Strips of kHigh rows, each [inner][kHigh]; the last may be less high.
template <class T>
void pack_rows(const Tiles& tiles, const Operands<T>& o, int64_t i, int64_t rows, int64_t p, int64_t inner, T* to) {
  for (int64_t r = 0; r < rows; r += kHigh, to += kHigh * inner) {
    const int64_t high = std::min(kHigh, rows - r);
    if (o.transpose_a) {
      for (int64_t q = 0; q < inner; ++q) std::memcpy(to + q * kHigh, o.a + (p + q) * o.lda + i + r, size_t(high) * sizeof(T));
    } else {
      tiles.transpose(o.a + (i + r) * o.lda + p, o.lda, high, inner, to, kHigh);
    }
  }
}

template <class T>
void blocked(const Tiles& tiles, const Operands<T>& o) {
  const int64_t width = tiles.template panel<T>();
  T* panel = scratch<T>(Scratch::panel, width * kInner);
  T* strips = scratch<T>(Scratch::block, (kRowsPerBlock + kHigh) * kInner);
  for (int64_t p = 0; p == 0 || p < o.k; p += kInner) {
    const int64_t inner = std::min(kInner, o.k - p);
    for (int64_t i = 0; i < o.m; i += kRowsPerBlock) {
      const int64_t rows = std::min(kRowsPerBlock, o.m - i);
      pack_rows(tiles, o, i, rows, p, inner, strips);
      for (int64_t j = 0; j < o.n; j += width) {
        const int64_t columns = std::min(width, o.n - j);
        pack_panel(tiles, o, p, inner, j, columns, panel, width);
        for (int64_t r = 0; r < rows; r += kHigh) {
          Product<T> q;
          q.m = std::min(kHigh, rows - r), q.n = columns, q.k = inner;
          q.a = strips + r * inner, q.lda = kHigh, q.transpose_a = true;
          q.b = panel, q.ldb = width;
          q.c = o.c + (i + r) * o.ldc + j, q.ldc = o.ldc;
          q.accumulate = p > 0;
          tiles.multiply(q);
        }
      }
    }
  }
}

template <class T>
void direct(const Tiles& tiles, const Operands<T>& o) {
  Product<T> q;
  q.m = o.m, q.k = o.k;
  q.a = o.a, q.lda = o.lda, q.transpose_a = o.transpose_a;
  q.ldc = o.ldc;
  if (!o.transpose_b) {
    q.n = o.n, q.b = o.b, q.ldb = o.ldb, q.c = o.c;
    return tiles.multiply(q);
  }
  const int64_t width = std::max<int64_t>(tiles.template panel<T>(), o.m == 1 ? 64 : 0);
  T* panel = scratch<T>(Scratch::panel, width * std::min(kInner, o.k));
  for (int64_t j = 0; j < o.n; j += width) {
    q.n = std::min(width, o.n - j), q.b = panel, q.ldb = width, q.c = o.c + j;
    for (int64_t p = 0; p == 0 || p < o.k; p += kInner) {
      q.k = std::min(kInner, o.k - p);
      q.a = o.transpose_a ? o.a + p * o.lda : o.a + p;
      q.accumulate = p > 0;
      pack_panel(tiles, o, p, q.k, j, q.n, panel, width);
      tiles.multiply(q);
    }
  }
}

template <class T>
void product(const Tiles& tiles, const Operands<T>& o) {
  if (o.m <= 0 || o.n <= 0) return;
  if (o.m <= 2 * kHigh || (o.m * o.n * o.k <= kSmall && o.k <= 2 * kInner)) direct(tiles, o);
  else blocked(tiles, o);
}

template <class T>
struct Shared {
  const Tiles& tiles;
  const Operands<T>& operands;
};

template <class T>
void share(void* context, int thread, int threads, ThreadPool::Barrier&) {
  const auto& shared = *static_cast<Shared<T>*>(context);
  Operands<T> o = shared.operands;
  if (o.m >= o.n) {
    const int64_t strips = (o.m + kHigh - 1) / kHigh, begin = std::min(o.m, strips * thread / threads * kHigh), end = std::min(o.m, strips * (thread + 1) / threads * kHigh);
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

// Half types are computed in float and rounded once; integers wrap.
template <class T>
void plain(const Operands<T>& o) {
  using Sum = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<float>>::type;
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

}  // namespace

template <class T>
void matmul(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, bool transpose_a, const T* b, int64_t ldb, bool transpose_b, T* c, int64_t ldc, Device device) {
  const Operands<T> o{m, n, k, a, lda, transpose_a, b, ldb, transpose_b, c, ldc};
  if constexpr (std::is_floating_point_v<T>) {
    const Tiles& t = tiles();
    const int threads = int(std::min(2.0 * double(m) * double(n) * double(k) / kFlopsPerThread, 1024.0));
    Shared<T> shared{t, o};
    if (threads > 1) ThreadPool::of(device).run(threads, share<T>, &shared);
    else product(t, o);
  } else {
    plain(o);
  }
}

#define LAMINA_MATMUL(T) template void matmul<T>(int64_t, int64_t, int64_t, const T*, int64_t, bool, const T*, int64_t, bool, T*, int64_t, Device);
LAMINA_MATMUL(float)
LAMINA_MATMUL(double)
LAMINA_MATMUL(f16)
LAMINA_MATMUL(bf16)
LAMINA_MATMUL(int32_t)
LAMINA_MATMUL(int64_t)
#undef LAMINA_MATMUL

}  // namespace lamina::kernels::cpu
