// Tiled products: c(row, column) = sum over k of a(row, k) * b(k, column). Operands define how elements are loaded and stored, so
// convolutions are products too.
//
// A block of 256 threads computes a tile of 64 x 64, each thread 4 x 4 of it in registers; 16 values of k at a time go through shared
// memory, and the next 16 are on their way meanwhile. Compute-bound for large depth.
//
// A sum of at least 512 terms is cut into up to 128 parts of at least 256, one block each, so that a small result of long sums fills the
// card. A part is summed in the order of k, one fused multiply-add per term; a second launch adds neighbouring parts until one is left. The
// parts depend only on the depth.
#pragma once
#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"

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

template <class C>
LAMINA_DEVICE C add(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return C(std::make_unsigned_t<C>(a) + std::make_unsigned_t<C>(b));  // wraps
  else
    return a + b;
}

// How a sum is cut.
struct Parts {
  int64_t length = 0, count = 1;  // the last part may be shorter
};
inline constexpr int64_t kLeastPart = 256, kMostParts = 128;
inline Parts parts_of(int64_t depth) {
  const int64_t wanted = depth / kLeastPart < kMostParts ? depth / kLeastPart : kMostParts;
  if (wanted <= 1) return {depth, 1};
  const int64_t length = ((depth + wanted - 1) / wanted + kDepth - 1) / kDepth * kDepth;
  return {length, (depth + length - 1) / length};
}

// The tiles of a launch.
struct Tiles {
  int64_t rows, columns, depth;
  int64_t down, across;  // tiles of a batch
  int64_t first, count;  // of all batches' tiles
  Parts parts;
  LAMINA_DEVICE int64_t batch(int64_t tile) const { return tile / (down * across); }
  LAMINA_DEVICE int64_t row(int64_t tile) const { return tile / across % down * kSide; }
  LAMINA_DEVICE int64_t column(int64_t tile) const { return tile % across * kSide; }
};

// A and B: compute_t operator()(outer, k), where outer is a row or a column; depth_is_near: whether neighbours in k are adjacent;
// start(batch) is called first. Store: operator()(row, column, value) and start(batch). partial: the sums of parts, if there are several.
template <class C, class A, class B, class Store>
LAMINA_KERNEL(256)
product_tiles(A a, B b, Store store, Tiles tiles, C* partial) {
  constexpr unsigned line = kSide + 4;  // the next row starts at other banks of shared memory
  constexpr unsigned own = kSide * kDepth / kThreads;
  LAMINA_SHARED(C, left, kDepth * line);
  LAMINA_SHARED(C, right, kDepth * line);
  const unsigned t = thread_index(), tx = t % kAcross, ty = t / kAcross;
  const int64_t parts = tiles.parts.count;
  for (int64_t unit = block_index(); unit < tiles.count * parts; unit += block_count()) {
    const int64_t tile = tiles.first + unit / parts, row = tiles.row(tile), column = tiles.column(tile), batch = tiles.batch(tile);
    const int64_t begin = unit % parts * tiles.parts.length;
    const int64_t end = begin + tiles.parts.length < tiles.depth ? begin + tiles.parts.length : tiles.depth;
    a.start(batch), b.start(batch), store.start(batch);
    C next_left[own], next_right[own];
    const auto fetch = [&](const auto& from, C(&to)[own], int64_t outer, int64_t outer_end, int64_t first) {
      LAMINA_UNROLL
      for (unsigned i = 0; i < own; ++i) {
        const unsigned e = t + i * kThreads, k = from.depth_is_near ? e % kDepth : e / kSide,
                       o = from.depth_is_near ? e / kDepth : e % kSide;
        to[i] = outer + o < outer_end && first + k < end ? from(outer + o, first + k) : C(0);
      }
    };
    const auto keep = [&](const auto& from, const C(&of)[own], C* to) {
      LAMINA_UNROLL
      for (unsigned i = 0; i < own; ++i) {
        const unsigned e = t + i * kThreads, k = from.depth_is_near ? e % kDepth : e / kSide,
                       o = from.depth_is_near ? e / kDepth : e % kSide;
        to[k * line + o] = of[i];
      }
    };
    C sum[kEach][kEach] = {};
    fetch(a, next_left, row, tiles.rows, begin), fetch(b, next_right, column, tiles.columns, begin);
    for (int64_t first = begin; first < end; first += kDepth) {
      keep(a, next_left, left), keep(b, next_right, right);
      sync_block();
      if (first + kDepth < end)
        fetch(a, next_left, row, tiles.rows, first + kDepth), fetch(b, next_right, column, tiles.columns, first + kDepth);
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
        const unsigned r = ty * kEach + i, c = tx * kEach + j;
        if (row + r >= tiles.rows || column + c >= tiles.columns) continue;
        if (parts > 1)
          partial[(unit * kSide + r) * kSide + c] = sum[i][j];
        else
          store(row + r, column + c, sum[i][j]);
      }
  }
}

// One thread per element of the result.
template <class C, class Store>
LAMINA_KERNEL(256)
add_parts(Store store, Tiles tiles, const C* partial) {
  constexpr unsigned together = 16, groups = unsigned(kMostParts) / together;
  const unsigned parts = unsigned(tiles.parts.count);
  // Neighbours are added until one is left.
  const auto join = [](auto& values, unsigned count) {
    constexpr unsigned most = sizeof values / sizeof(C);
    LAMINA_UNROLL
    for (unsigned step = 1; step < most; step *= 2) LAMINA_UNROLL
    for (unsigned i = 0; i + step < most; i += 2 * step)
      if (i + step < count) values[i] = add(values[i], values[i + step]);
    return values[0];
  };
  for (int64_t at = first_element(); at < tiles.count * kSide * kSide; at += all_threads()) {
    const int64_t tile = at / (kSide * kSide), row = tiles.row(tiles.first + tile), column = tiles.column(tiles.first + tile);
    const unsigned place = unsigned(at % (kSide * kSide)), r = place / kSide, c = place % kSide;
    if (row + r >= tiles.rows || column + c >= tiles.columns) continue;
    C sums[groups] = {};
    for (unsigned g = 0; g * together < parts; ++g) {
      C some[together];  // their loads wait together
      const unsigned count = parts - g * together < together ? parts - g * together : together;
      LAMINA_UNROLL
      for (unsigned i = 0; i < together; ++i)
        some[i] = i < count ? partial[(tile * parts + g * together + i) * (kSide * kSide) + place] : C(0);
      sums[g] = join(some, count);
    }
    store.start(tiles.batch(tiles.first + tile));
    store(row + r, column + c, join(sums, (parts + together - 1) / together));
  }
}

template <class C, class A, class B, class Store>
void product(Stream& stream, const A& a, const B& b, const Store& store, int64_t batches, int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t together = 2048;  // parts of tiles, whose sums stay in the L2 cache
  Tiles tiles{
      .rows = rows, .columns = columns, .depth = depth, .down = (rows + kSide - 1) / kSide, .across = (columns + kSide - 1) / kSide};
  const int64_t all = batches * tiles.down * tiles.across;
  if (all == 0) return;
  tiles.parts = parts_of(depth);
  tiles.first = 0, tiles.count = all;
  if (tiles.parts.count == 1)
    return launch<product_tiles<C, A, B, Store>>(stream, over_blocks(all), a, b, store, tiles, static_cast<C*>(nullptr));
  const int64_t most = all < together / tiles.parts.count ? all : together / tiles.parts.count;
  const Scratch<C> partial(stream, most * tiles.parts.count * kSide * kSide);
  for (; tiles.first < all; tiles.first += most) {
    tiles.count = all - tiles.first < most ? all - tiles.first : most;
    launch<product_tiles<C, A, B, Store>>(stream, over_blocks(tiles.count * tiles.parts.count), a, b, store, tiles, partial.data());
    launch<add_parts<C, Store>>(stream, over(tiles.count * kSide * kSide), store, tiles, static_cast<const C*>(partial.data()));
  }
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
