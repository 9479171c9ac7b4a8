// Tiled products: c(row, column) = sum over k of a(row, k) * b(k, column), in the order of k with one rounding per term. Operands define
// how elements are loaded and stored, so convolutions are products too.
//
// A block of 256 threads computes a tile of 64 x 64, each thread 4 x 4 of it in registers; 16 values of k at a time go through shared
// memory. Compute-bound for large depth.
#pragma once
#include "kernels/cuda/element.h"

namespace lamina::kernels::cuda {

inline constexpr unsigned kSide = 64, kDepth = 16, kEach = 4, kAcross = kSide / kEach;
static_assert(kAcross * kAcross == kThreads);

template <class C>
LAMINA_DEVICE C multiply_add(C a, C b, C sum) {
  if constexpr (std::is_integral_v<C>) {
    using U = std::make_unsigned_t<C>;  // wraps
    return C(U(sum) + U(a) * U(b));
  } else {
    return fma(a, b, sum);
  }
}

// A and B: compute_t operator()(outer, k), where outer is a row or a column; depth_is_near: whether neighbours in k are adjacent;
// start(batch) is called first. Store: operator()(row, column, value) and start(batch).
template <class C, class A, class B, class Store>
LAMINA_KERNEL(256)
product_tiles(A a, B b, Store store, int64_t batches, int64_t rows, int64_t columns, int64_t depth) {
  constexpr unsigned line = kSide + 4;  // the next row starts at other banks of shared memory
  LAMINA_SHARED(C, left, kDepth * line);
  LAMINA_SHARED(C, right, kDepth * line);
  const int64_t down = (rows + kSide - 1) / kSide, across = (columns + kSide - 1) / kSide;
  const unsigned t = thread_index(), tx = t % kAcross, ty = t / kAcross;
  for (int64_t unit = block_index(); unit < batches * down * across; unit += block_count()) {
    const int64_t row = unit / across % down * kSide, column = unit % across * kSide;
    a.start(unit / (down * across)), b.start(unit / (down * across)), store.start(unit / (down * across));
    C sum[kEach][kEach] = {};
    for (int64_t first = 0; first < depth; first += kDepth) {
      auto load = [&](const auto& from, C* to, int64_t outer, int64_t end) {
        for (unsigned e = t; e < kSide * kDepth; e += kThreads) {
          const unsigned k = from.depth_is_near ? e % kDepth : e / kSide, o = from.depth_is_near ? e / kDepth : e % kSide;
          to[k * line + o] = outer + o < end && first + k < depth ? from(outer + o, first + k) : C(0);
        }
      };
      load(a, left, row, rows);
      load(b, right, column, columns);
      sync_block();
      LAMINA_UNROLL
      for (unsigned k = 0; k < kDepth; ++k) {
        C x[kEach], y[kEach];
        LAMINA_UNROLL
        for (unsigned i = 0; i < kEach; ++i) x[i] = left[k * line + ty * kEach + i], y[i] = right[k * line + tx * kEach + i];
        LAMINA_UNROLL
        for (unsigned i = 0; i < kEach; ++i) LAMINA_UNROLL
        for (unsigned j = 0; j < kEach; ++j) sum[i][j] = multiply_add(x[i], y[j], sum[i][j]);
      }
      sync_block();
    }
    for (unsigned i = 0; i < kEach; ++i)
      for (unsigned j = 0; j < kEach; ++j) {
        const int64_t r = row + ty * kEach + i, c = column + tx * kEach + j;
        if (r < rows && c < columns) store(r, c, sum[i][j]);
      }
  }
}

template <class C, class A, class B, class Store>
void product(Stream& stream, const A& a, const B& b, const Store& store, int64_t batches, int64_t rows, int64_t columns, int64_t depth) {
  const int64_t tiles = batches * ((rows + kSide - 1) / kSide) * ((columns + kSide - 1) / kSide);
  if (tiles == 0) return;
  launch<product_tiles<C, A, B, Store>>(stream, {.grid = {unsigned(tiles < kMostBlocks ? tiles : kMostBlocks)}, .threads = kThreads}, a, b,
                                        store, batches, rows, columns, depth);
}

// An operand that is a matrix in memory, one per batch.
template <class T>
struct Matrix {
  const T* data;
  int64_t outer_step, depth_step;
  bool depth_is_near;
  Axes batches;
  LAMINA_DEVICE void start(int64_t batch) { data += batches.offset(batch) - at, at = batches.offset(batch); }
  LAMINA_DEVICE compute_t<T> operator()(int64_t outer, int64_t k) const { return widen(data[outer * outer_step + k * depth_step]); }
  int64_t at = 0;  // current batch of data
};
// Maps the result's leading axes to an operand's.
inline Axes batches_of(const View& a, const View& c) {
  Axes axes;
  for (int i = 0; i < c.rank - 2; ++i) {
    const int own = i - (c.rank - a.rank);
    axes.add(c.shape[i], own >= 0 && a.shape[own] != 1 ? a.strides[own] : 0);
  }
  return axes;
}

}  // namespace lamina::kernels::cuda
