// Compiled once per instruction set (LAMINA_ISA). A tile of R rows and C vectors of columns stays in registers over all of k: 6x2 with 16
// registers, 6x4 with 32. It is bound by the multiply-add units. A tile with few rows is wider instead, so that enough independent sums
// hide the latency of an addition.
#include <type_traits>
#include <utility>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/subnormals.h"
#include "kernels/cpu/tiles.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cpu::LAMINA_ISA {

extern const Tiles kTiles;

namespace {

namespace ops = lamina::kernels::scalar;
using section::Activation;

constexpr int kMostRows = 6;
constexpr int kColumns = kRegisters == 32 ? 4 : 2;  // vectors of a tile of 4 rows or more

constexpr int columns_of(int rows) { return rows == 1 ? 8 : rows == 2 ? 4 : rows == 3 && kRegisters == 16 ? 3 : kColumns; }

// Calls f(vector, index) for each vector of the tile; the last column of a ragged tile has `last` lanes.
template <class T, int R, int C, bool Ragged, class F>
LAMINA_INLINE void store_tile(const Product<T>& p, int64_t i, int64_t j, typename Simd<T>::Part part, typename Simd<T>::V (&acc)[R][C],
                              F f) {
  using S = Simd<T>;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    int64_t at = (i + r) * p.ldc + j;
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      int64_t column = c * S::lanes;
      if (Ragged && c == C - 1)
        S::store(p.c + at + column,
                 f(acc[r][c], at + column, j + column, [&](const T* q) LAMINA_INLINE_LAMBDA { return S::load(q, part); }), part);
      else
        S::store(p.c + at + column, f(acc[r][c], at + column, j + column, [](const T* q) LAMINA_INLINE_LAMBDA { return S::load(q); }));
    }
  }
}

// A tile in memory, one vector after the other.
template <class T, int R, int C>
struct alignas(64) TileValues {
  using S = Simd<T>;
  T values[R * C * S::lanes];
  void take(const typename S::V (&acc)[R][C]) {
#pragma GCC unroll 32
    for (int v = 0; v < R * C; ++v) S::store(values + v * S::lanes, acc[v / C][v % C]);
  }
  void give(typename S::V (&acc)[R][C]) const {
#pragma GCC unroll 32
    for (int v = 0; v < R * C; ++v) acc[v / C][v % C] = S::load(values + v * S::lanes);
  }
};

// Activations and their gradients on n values (whole vectors), by the common scalar functions. One copy per type: a tile is large enough
// for a call, and many vectors in flight hide latency.
template <class T>
[[gnu::noinline]] void activate(Activation activation, T alpha, T* y, int64_t n) {
  constexpr int lanes = Simd<T>::lanes;
  switch (activation) {
    case Activation::none: break;
#define ACTIVATION(name, slope, parameter)                                                          \
  case Activation::name:                                                                            \
    for (int64_t q = 0; q < n; q += lanes)                                                          \
      for (int l = 0; l < lanes; ++l) y[q + l] = LAMINA_ACTIVATION_CALL(parameter, name, y[q + l]); \
    break;
#include "kernels/shared/elementwise_ops.inc"
  }
}
template <class T>
[[gnu::noinline]] void mask(Activation activation, T alpha, T* __restrict d, const T* __restrict y, int64_t n) {
  constexpr int lanes = Simd<T>::lanes;
  switch (activation) {
    case Activation::none: break;
#define ACTIVATION(name, slope, parameter)                                                                           \
  case Activation::name:                                                                                             \
    for (int64_t q = 0; q < n; q += lanes)                                                                           \
      for (int l = 0; l < lanes; ++l) d[q + l] = LAMINA_ACTIVATION_CALL(parameter, name##_grad, d[q + l], y[q + l]); \
    break;
#include "kernels/shared/elementwise_ops.inc"
  }
}

template <class T, int R, int C, bool Ragged>
LAMINA_INLINE void finish(const Product<T>& p, int64_t i, int64_t j, typename Simd<T>::Part part, typename Simd<T>::V (&acc)[R][C]) {
  using S = Simd<T>;
  using V = typename S::V;
  switch (sizeof(T) == 4 ? p.epilogue : Epilogue::none) {  // sections are f32
    case Epilogue::none:
      store_tile<T, R, C, Ragged>(p, i, j, part, acc, [](V x, int64_t, int64_t, auto) LAMINA_INLINE_LAMBDA { return x; });
      break;
    case Epilogue::activation: {
      if (p.bias) {
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
          V bias = Ragged && c == C - 1 ? S::load(p.bias + j + c * S::lanes, part) : S::load(p.bias + j + c * S::lanes);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) acc[r][c] = acc[r][c] + bias;
        }
      }
      if (p.activation == Activation::relu) {
        store_tile<T, R, C, Ragged>(p, i, j, part, acc, [](V x, int64_t, int64_t, auto) LAMINA_INLINE_LAMBDA { return S::relu(x); });
        break;
      }
      if (p.activation != Activation::none) {
        TileValues<T, R, C> tile;
        tile.take(acc);
        activate(p.activation, p.alpha, tile.values, R * C * S::lanes);
        tile.give(acc);
      }
      store_tile<T, R, C, Ragged>(p, i, j, part, acc, [](V x, int64_t, int64_t, auto) LAMINA_INLINE_LAMBDA { return x; });
      break;
    }
    case Epilogue::mask: {
      const T* y = p.other;
      if (p.activation == Activation::relu) {
        store_tile<T, R, C, Ragged>(p, i, j, part, acc, [&](V x, int64_t at, int64_t, auto load) LAMINA_INLINE_LAMBDA {
          return S::zero_unless_above_zero(x, load(y + at));
        });
      } else {
        TileValues<T, R, C> tile, given;
        tile.take(acc);
        for (int v = 0; v < R * C; ++v) {
          const T* from = y + (i + v / C) * p.ldc + j + v % C * S::lanes;
          S::store(given.values + v * S::lanes, Ragged && v % C == C - 1 ? S::load(from, part) : S::load(from));
        }
        mask(p.activation, p.alpha, tile.values, given.values, R * C * S::lanes);
        tile.give(acc);
        store_tile<T, R, C, Ragged>(p, i, j, part, acc, [](V x, int64_t, int64_t, auto) LAMINA_INLINE_LAMBDA { return x; });
      }
      break;
    }
    case Epilogue::descent: {
      V rate = S::all(p.rate);
      const T* w = p.other;
      store_tile<T, R, C, Ragged>(p, i, j, part, acc,
                                  [&](V x, int64_t at, int64_t, auto load) LAMINA_INLINE_LAMBDA { return load(w + at) - rate * x; });
      break;
    }
  }
}

template <class T, int R, int C, bool Ragged, bool Transposed>
void tile(const Product<T>& p, int64_t i, int64_t j, int last) {
  using S = Simd<T>;
  using V = typename S::V;
  const typename S::Part part = S::part(last);
  V acc[R][C];
  if (p.accumulate) {
    if constexpr (R * C >= 8) {  // prefetch for the next tile below
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) __builtin_prefetch(p.c + (i + R + r) * p.ldc + j, 1);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const T* from = p.c + (i + r) * p.ldc + j + c * S::lanes;
        acc[r][c] = Ragged && c == C - 1 ? S::load(from, part) : S::load(from);
      }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = S::zero();
  }
  if constexpr (R * C >= 8) {  // prefetch the epilogue's operands
    if (p.other) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int c = 0; c < C; c += 64 / int(sizeof(V))) __builtin_prefetch(p.other + (i + r) * p.ldc + j + c * S::lanes);
    }
  }
  const int64_t lda = p.lda, ldb = p.ldb, k = p.k;
  const T* a = Transposed ? p.a + i : p.a + i * lda;
  const T* b = p.b + j;
  // Prefetches: the first rows what the caller reads next, the others the next panel here, or the former again.
  const T* ahead = b;
  int64_t ld_ahead = 0;
  if (p.ahead && i == 0)
    ahead = p.ahead + j, ld_ahead = p.ld_ahead;
  else if (constexpr int64_t width = C * S::lanes; j + width < p.n)
    ahead = b + width, ld_ahead = ldb;
  else if (p.ahead)
    ahead = p.ahead, ld_ahead = p.ld_ahead;
#pragma GCC unroll 2
  for (int64_t q = 0; q < k; ++q) {
    V row[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) row[c] = Ragged && c == C - 1 ? S::load(b + c * S::lanes, part) : S::load(b + c * S::lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      V x = S::all(Transposed ? a[r] : a[r * lda]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = S::fma(x, row[c], acc[r][c]);
    }
    if constexpr (R >= 4) {
#pragma GCC unroll 8
      for (int c = 0; c < C; c += 64 / int(sizeof(V))) __builtin_prefetch(ahead + c * S::lanes, 0, 3);
      ahead += ld_ahead;
    }
    a += Transposed ? lda : 1;
    b += ldb;
  }
  if (p.add) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const T* from = p.c + (i + r) * p.ldc + j + c * S::lanes;
        acc[r][c] = (Ragged && c == C - 1 ? S::load(from, part) : S::load(from)) + acc[r][c];
      }
  }
  finish<T, R, C, Ragged>(p, i, j, part, acc);
}

// k = 1, as in the weight gradient of one row: bound by reading and writing c once, so b stays in registers over all rows.
template <class T, int C, bool Ragged>
void outer(const Product<T>& p, int64_t, int64_t j, int last) {
  using S = Simd<T>;
  using V = typename S::V;
  const typename S::Part part = S::part(last);
  V row[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) row[c] = Ragged && c == C - 1 ? S::load(p.b + j + c * S::lanes, part) : S::load(p.b + j + c * S::lanes);
  const int64_t step = p.transpose_a ? 1 : p.lda, ldc = p.ldc;
  if (p.epilogue == Epilogue::descent && sizeof(T) == 4 && !Ragged) {
    const V rate = S::all(p.rate);
    const T *w = p.other + j, *a = p.a;
    T* to = p.c + j;
    for (int64_t i = 0; i < p.m; ++i, a += step, w += ldc, to += ldc) {
      const V x = S::all(*a);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) S::store(to + c * S::lanes, S::load(w + c * S::lanes) - rate * S::fma(x, row[c], S::zero()));
    }
    return;
  }
  for (int64_t i = 0; i < p.m; ++i) {
    V x = S::all(p.a[i * step]), acc[1][C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[0][c] = S::fma(x, row[c], S::zero());
    finish<T, 1, C, Ragged>(p, i, j, part, acc);
  }
}

template <class T>
using TileFunction = void (*)(const Product<T>&, int64_t i, int64_t j, int last);

// [transposed][rows - 1][ragged][vectors - 1]; null where no tile has this many rows and vectors.
template <class T>
struct TileTable {
  TileFunction<T> tile[2][kMostRows][2][8] = {};
  TileFunction<T> outer[2][8] = {};

  template <int R, int C>
  constexpr void add() {
    tile[0][R - 1][0][C - 1] = &LAMINA_ISA::tile<T, R, C, false, false>;
    tile[0][R - 1][1][C - 1] = &LAMINA_ISA::tile<T, R, C, true, false>;
    tile[1][R - 1][0][C - 1] = &LAMINA_ISA::tile<T, R, C, false, true>;
    tile[1][R - 1][1][C - 1] = &LAMINA_ISA::tile<T, R, C, true, true>;
    if constexpr (R == 1) {
      outer[0][C - 1] = &LAMINA_ISA::outer<T, C, false>;
      outer[1][C - 1] = &LAMINA_ISA::outer<T, C, true>;
    }
    if constexpr (C > 1) add<R, C - 1>();
  }
  constexpr TileTable() {
    add<1, columns_of(1)>();
    add<2, columns_of(2)>();
    add<3, columns_of(3)>();
    add<4, kColumns>();
    add<5, kColumns>();
    add<6, kColumns>();
  }
};
template <class T>
constinit const TileTable<T> tile_table;

template <class T>
void multiply(const Product<T>& p) {
  constexpr int lanes = Simd<T>::lanes;
  if (p.m == 0 || p.n == 0) return;
  [[maybe_unused]] const std::conditional_t<sizeof(T) == 4, SubnormalsAreZero, char> mode{};
  const bool is_outer = p.k == 1 && !p.accumulate && !p.add && p.m > 1;
  // Rows are divided evenly: 20 rows are 4 tiles of 5, not 3 of 6 and one of 2.
  int64_t rows = p.m, more = 0;
  if (p.m > kMostRows) {
    const uint64_t tiles = uint64_t(p.m + kMostRows - 1) / kMostRows;
    rows = int64_t(uint64_t(p.m) / tiles), more = int64_t(uint64_t(p.m) % tiles);
  }
  const int64_t width = (is_outer ? 8 : columns_of(p.m < kMostRows ? int(p.m) : kMostRows)) * lanes;
  for (int64_t j = 0; j < p.n; j += width) {
    const int64_t columns = p.n - j < width ? p.n - j : width;
    const int vectors = int((columns + lanes - 1) / lanes), last = int(columns - (vectors - 1) * lanes);
    const bool ragged = last < lanes;
    if (is_outer) {
      tile_table<T>.outer[ragged][vectors - 1](p, 0, j, last);
      continue;
    }
    const auto& table = tile_table<T>.tile[p.transpose_a];
    int64_t i = 0;
    if (more > 0)
      for (const auto run = table[rows][ragged][vectors - 1]; i < more * (rows + 1); i += rows + 1) run(p, i, j, last);
    for (const auto run = table[rows - 1][ragged][vectors - 1]; i < p.m; i += rows) run(p, i, j, last);
  }
}

// --- transposition by squares, one vector per row ---

// The first two stages work within groups of four lanes, as every processor's shuffles do.
template <int lanes, class V>
LAMINA_INLINE V low_pairs(const V& a, const V& b) {
  if constexpr (lanes == 4)
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
  else if constexpr (lanes == 8)
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
  else
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
template <int lanes, class V>
LAMINA_INLINE V high_pairs(const V& a, const V& b) {
  if constexpr (lanes == 4)
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
  else if constexpr (lanes == 8)
    return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  else
    return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
template <int lanes, class V>
LAMINA_INLINE V low_halves(const V& a, const V& b) {
  if constexpr (lanes == 4)
    return __builtin_shufflevector(a, b, 0, 1, 4, 5);
  else if constexpr (lanes == 8)
    return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  else
    return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
template <int lanes, class V>
LAMINA_INLINE V high_halves(const V& a, const V& b) {
  if constexpr (lanes == 4)
    return __builtin_shufflevector(a, b, 2, 3, 6, 7);
  else if constexpr (lanes == 8)
    return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  else
    return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
// Groups of four of 16 lanes: even ones of a, then of b; odd ones.
template <class V>
LAMINA_INLINE V even_groups(const V& a, const V& b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
template <class V>
LAMINA_INLINE V odd_groups(const V& a, const V& b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

// Calls f(q, vector) for the columns q < 4 of groups of four lanes: t_i, group h, is part of row 4 h + i.
template <class F, class V>
LAMINA_INLINE void four_columns(const V& t0, const V& t1, const V& t2, const V& t3, F f) {
  constexpr int lanes = int(sizeof(V) / sizeof(float));
  V a = low_pairs<lanes>(t0, t1), b = high_pairs<lanes>(t0, t1), c = low_pairs<lanes>(t2, t3), d = high_pairs<lanes>(t2, t3);
  f(0, low_halves<lanes>(a, c));
  f(1, high_halves<lanes>(a, c));
  f(2, low_halves<lanes>(b, d));
  f(3, high_halves<lanes>(b, d));
}
// Calls f(q, vector) for each column q < lanes of a square in memory, with its elements in row order. Loading groups of four lanes of four
// rows does half of the transposition; few different offsets, so that addresses stay in registers.
template <class F, class S = Simd<float>>
LAMINA_INLINE void each_column(const float* from, int64_t ld_from, F f) {
  const int64_t row = ld_from, rows2 = 2 * ld_from, rows3 = 3 * ld_from, rows4 = 4 * ld_from;
#pragma GCC unroll 4
  for (int g = 0; g < S::lanes; g += 4, from += 4)
    four_columns(S::load_groups(from, rows4), S::load_groups(from + row, rows4), S::load_groups(from + rows2, rows4),
                 S::load_groups(from + rows3, rows4), [&](int q, auto column) LAMINA_INLINE_LAMBDA { f(g + q, column); });
}
// The same, not in the order of q, with with_row(i, vector), which may write row i over the square.
template <class F, class Row, class S = Simd<float>>
LAMINA_INLINE void each_column(const float* from, int64_t ld_from, F f, Row with_row) {
  using V = typename S::V;
  constexpr int lanes = S::lanes;
  if constexpr (lanes < 16) {
    each_column(from, ld_from, f);
#pragma GCC unroll 8
    for (int i = 0; i < lanes; ++i) with_row(i, S::load(from + i * ld_from));
  } else {  // rows are loaded once
    V r[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      r[i] = S::load(from + i * ld_from);
      with_row(i, r[i]);
    }
#pragma GCC unroll 4
    for (int g = 0; g < lanes; g += 4)
      four_columns(r[g], r[g + 1], r[g + 2], r[g + 3], [&, g](int q, auto column) LAMINA_INLINE_LAMBDA { r[g + q] = column; });
    // r[4 g + q], group h: column 4 h + q of rows 4 g to 4 g + 3. What is left is a transposition of groups.
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      V e0 = even_groups(r[q], r[4 + q]), e1 = even_groups(r[8 + q], r[12 + q]);  // columns q and 8 + q
      V o0 = odd_groups(r[q], r[4 + q]), o1 = odd_groups(r[8 + q], r[12 + q]);    // 4 + q and 12 + q
      f(q, even_groups(e0, e1));
      f(8 + q, odd_groups(e0, e1));
      f(4 + q, even_groups(o0, o1));
      f(12 + q, odd_groups(o0, o1));
    }
  }
}
LAMINA_INLINE void transpose_square(const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  const int64_t lines2 = 2 * ld_to, lines3 = 3 * ld_to;
  each_column(from, ld_from, [&](int q, auto column) LAMINA_INLINE_LAMBDA {
    float* group = to + (q & ~3) * ld_to;
    Simd<float>::store(group + ((q & 3) == 0 ? 0 : (q & 3) == 1 ? ld_to : (q & 3) == 2 ? lines2 : lines3), column);
  });
}
// Stage d of the transposition of a square in registers changes rows and lanes that differ in bit d.
template <int d, class V, size_t... lane>
LAMINA_INLINE void exchange(V& a, V& b, std::index_sequence<lane...>) {
  constexpr int lanes = int(sizeof...(lane));
  const V low = __builtin_shufflevector(a, b, (int(lane) & d ? lanes + int(lane) - d : int(lane))...);
  b = __builtin_shufflevector(a, b, (int(lane) & d ? lanes + int(lane) : int(lane) + d)...);
  a = low;
}
LAMINA_INLINE void transpose_square(const double* from, int64_t ld_from, double* to, int64_t ld_to) {
  using S = Simd<double>;
  constexpr int lanes = S::lanes;
  S::V r[lanes];
#pragma GCC unroll 8
  for (int i = 0; i < lanes; ++i) r[i] = S::load(from + i * ld_from);
  auto stage = [&]<int d>(std::integral_constant<int, d>) LAMINA_INLINE_LAMBDA {
    if constexpr (d < lanes) {
#pragma GCC unroll 8
      for (int i = 0; i < lanes; ++i)
        if (!(i & d)) exchange<d>(r[i], r[i + d], std::make_index_sequence<size_t(lanes)>());
    }
  };
  stage(std::integral_constant<int, 1>());
  stage(std::integral_constant<int, 2>());
  stage(std::integral_constant<int, 4>());
#pragma GCC unroll 8
  for (int i = 0; i < lanes; ++i) S::store(to + i * ld_to, r[i]);
}

template <class T>
void transpose_plain(const T* from, int64_t ld_from, int64_t rows, int64_t columns, T* to, int64_t ld_to) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * ld_to + i] = from[i * ld_from + j];
}

template <class T>
LAMINA_INLINE void transpose_to(const T* from, int64_t ld_from, int64_t rows, int64_t columns, T* to, int64_t ld_to) {
  constexpr int64_t lanes = Simd<T>::lanes;
  const int64_t whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
  for (int64_t i = 0; i < whole_rows; i += lanes) {
    for (int64_t j = 0; j < whole_columns; j += lanes) transpose_square(from + i * ld_from + j, ld_from, to + j * ld_to + i, ld_to);
    if (whole_columns < columns)
      transpose_plain(from + i * ld_from + whole_columns, ld_from, lanes, columns - whole_columns, to + whole_columns * ld_to + i, ld_to);
  }
  if (whole_rows < rows) transpose_plain(from + whole_rows * ld_from, ld_from, rows - whole_rows, columns, to + whole_rows, ld_to);
}

template <class T>
void transpose_squares(const T* from, int64_t ld_from, int64_t rows, int64_t columns, T* to, int64_t ld_to) {
  constexpr int64_t panel = kColumns * Simd<T>::lanes;
  if (ld_to == panel)
    transpose_to(from, ld_from, rows, columns, to, panel);  // the stores' addresses are constants then
  else
    transpose_to(from, ld_from, rows, columns, to, ld_to);
}

// With `descend`, also to = b - rate * (x outer a) for the rows of b that are read.
template <bool descend>
LAMINA_INLINE int64_t multiply_row_by(const Product<float>& p, const int64_t ldb, const float* x, float rate, float* to) {
  using S = Simd<float>;
  constexpr int lanes = S::lanes;
  const S::V r = S::all(rate);
  int64_t j = 0;
  for (; j + lanes <= p.n; j += lanes) {
    S::V acc[1][1] = {{p.accumulate ? S::load(p.c + j) : S::zero()}};
    int64_t q = 0;
    for (; q + lanes <= p.k; q += lanes) {
      const float *square = p.b + j * ldb + q, *factors = x + j;
      float* descended = to + j * ldb + q;
      const S::V a = S::load(p.a + q);
      S::V columns[lanes];
      each_column(
          square, ldb, [&](int c, auto column) LAMINA_INLINE_LAMBDA { columns[c] = column; },
          [&](int i, [[maybe_unused]] auto row) LAMINA_INLINE_LAMBDA {
            if constexpr (descend) S::store(descended + i * ldb, row - r * S::fma(S::all(factors[i]), a, S::zero()));
          });
#pragma GCC unroll 16
      for (int c = 0; c < lanes; ++c) acc[0][0] = S::fma(S::all(p.a[q + c]), columns[c], acc[0][0]);
    }
    for (; q < p.k; ++q) {
      alignas(64) float column[lanes];
      for (int i = 0; i < lanes; ++i) {
        const float w = p.b[(j + i) * ldb + q];
        column[i] = w;
        if constexpr (descend) to[(j + i) * ldb + q] = w - rate * (x[j + i] * p.a[q] + 0.0f);  // + 0: as the fused product's
      }
      acc[0][0] = S::fma(S::all(p.a[q]), S::load(column), acc[0][0]);
    }
    finish<float, 1, 1, false>(p, 0, j, S::part(lanes), acc);
  }
  return j;
}
int64_t multiply_row_descend(const Product<float>& p, const float* x, float rate, float* to) {
  [[maybe_unused]] const SubnormalsAreZero mode;
  if (p.ldb == 64) return multiply_row_by<true>(p, 64, x, rate, to);  // the rows' addresses are constants then
  return multiply_row_by<true>(p, p.ldb, x, rate, to);
}
int64_t multiply_row(const Product<float>& p) {
  [[maybe_unused]] const SubnormalsAreZero mode;
  return multiply_row_by<false>(p, p.ldb, p.a, 0, p.c);  // x and to are not used
}

template <int C>
LAMINA_INLINE void add_rows_of(const float* x, int64_t rows, int64_t n, float* to) {
  using S = Simd<float>;
  S::V sum[C];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) sum[c] = S::load(x + c * S::lanes);
  for (int64_t i = 1; i < rows; ++i) {
    x += n;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[c] = sum[c] + S::load(x + c * S::lanes);
  }
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) S::store(to + c * S::lanes, sum[c]);
}

void add_rows(const float* x, int64_t rows, int64_t n, float* to) {
  constexpr int64_t lanes = Simd<float>::lanes;
  int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) add_rows_of<4>(x + j, rows, n, to + j);
  for (; j + lanes <= n; j += lanes) add_rows_of<1>(x + j, rows, n, to + j);
  for (; j < n; ++j) {
    to[j] = x[j];
    for (int64_t i = 1; i < rows; ++i) to[j] += x[i * n + j];
  }
}

void descend(const float* w, const float* g, float rate, float* to, int64_t n) {
  using S = Simd<float>;
  const S::V r = S::all(rate);
  int64_t i = 0;
  for (; i + S::lanes <= n; i += S::lanes) S::store(to + i, S::load(w + i) - r * S::load(g + i));
  if (i < n) {
    const S::Part part = S::part(int(n - i));
    S::store(to + i, S::load(w + i, part) - r * S::load(g + i, part), part);
  }
}

}  // namespace

constinit const Tiles kTiles{
    .multiply_f32 = multiply<float>,
    .multiply_f64 = multiply<double>,
    .multiply_row_f32 = multiply_row,
    .multiply_row_descend_f32 = multiply_row_descend,
    .transpose_f32 = transpose_squares<float>,
    .transpose_f64 = transpose_squares<double>,
    .add_rows = add_rows,
    .descend = descend,
    .panel_f32 = kColumns * Simd<float>::lanes,
    .panel_f64 = kColumns * Simd<double>::lanes,
};

}  // namespace lamina::kernels::cpu::LAMINA_ISA
