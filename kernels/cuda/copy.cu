// A thread copies elements in the result's order. If the source's rows are the result's columns, a block transposes tiles of 32 x 32 in
// shared memory, so that both sides are accessed by rows. Memory-bound.
#include "kernels/copy.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

constexpr unsigned kTile = 32, kTileRows = 8;  // threads of a tile: 32 x 8

template <class T>
LAMINA_KERNEL(256)
copy_strided(const T* from, T* to, Axes source, Axes sink) {
  for (int64_t i = first_element(); i < source.size; i += all_threads()) to[sink.offset(i)] = from[source.offset(i)];
}

// to[b, r, c] = from[b, r, c], where rows of `from` and columns of `to` have stride 1.
struct Turn {
  int64_t batch = 1, rows = 1, columns = 1;
  int64_t from_batch = 0, from_column = 0, to_batch = 0, to_row = 0;
};
template <class T>
LAMINA_KERNEL(256)
copy_turned(const T* from, T* to, Turn t) {
  LAMINA_SHARED(T, tile, kTile * (kTile + 1));
  const int64_t tiles_down = (t.rows + kTile - 1) / kTile, tiles_across = (t.columns + kTile - 1) / kTile;
  const unsigned x = thread_index() % kTile, y = thread_index() / kTile;
  for (int64_t unit = block_index(); unit < t.batch * tiles_down * tiles_across; unit += block_count()) {
    const int64_t b = unit / (tiles_down * tiles_across), row = unit / tiles_across % tiles_down * kTile,
                  column = unit % tiles_across * kTile;
    for (unsigned j = y; j < kTile; j += kTileRows)
      if (row + x < t.rows && column + j < t.columns)
        tile[j * (kTile + 1) + x] = from[b * t.from_batch + (row + x) + (column + j) * t.from_column];
    sync_block();
    for (unsigned j = y; j < kTile; j += kTileRows)
      if (row + j < t.rows && column + x < t.columns) to[b * t.to_batch + (row + j) * t.to_row + column + x] = tile[x * (kTile + 1) + j];
    sync_block();
  }
}

// The axes of both views, merged where both allow it.
struct Pair {
  int rank = 0;
  int64_t shape[kMaxRank], from[kMaxRank], to[kMaxRank];
};
Pair merge(const View& x, const View& y) {
  Pair p;
  for (int a = 0; a < x.rank; ++a) {
    if (x.shape[a] == 1) continue;
    int last = p.rank - 1;
    if (last >= 0 && p.from[last] == x.strides[a] * x.shape[a] && p.to[last] == y.strides[a] * x.shape[a]) {
      p.shape[last] *= x.shape[a];
    } else {
      p.shape[++last] = x.shape[a];
      p.rank = last + 1;
    }
    p.from[last] = x.strides[a];
    p.to[last] = y.strides[a];
  }
  return p;
}

template <class T>
void copy(Stream& stream, const View& x, const View& y, const Pair& p) {
  const int r = p.rank;
  if ((r == 2 || r == 3) && p.from[r - 2] == 1 && p.to[r - 1] == 1 && p.shape[r - 2] >= 8 && p.shape[r - 1] >= 8) {
    Turn t{.rows = p.shape[r - 2], .columns = p.shape[r - 1], .from_column = p.from[r - 1], .to_row = p.to[r - 2]};
    if (r == 3) t.batch = p.shape[0], t.from_batch = p.from[0], t.to_batch = p.to[0];
    const int64_t tiles = t.batch * ((t.rows + kTile - 1) / kTile) * ((t.columns + kTile - 1) / kTile);
    return launch<copy_turned<T>>(stream, {.grid = {unsigned(tiles < kMostBlocks ? tiles : kMostBlocks)}, .threads = kTile * kTileRows},
                                  x.as<const T>(), y.as<T>(), t);
  }
  launch<copy_strided<T>>(stream, over(x.size()), x.as<const T>(), y.as<T>(), axes_of(x), axes_of(y));
}

// Elements of 16 bytes as two of 8 along a new last axis, of which complex tensors have room for one.
View halves_of(View v) {
  for (int a = 0; a < v.rank; ++a) v.strides[a] *= 2;
  v.shape[v.rank] = 2, v.strides[v.rank] = 1;
  ++v.rank;
  v.dtype = DType::i64;
  return v;
}

}  // namespace

void copy_elements(Stream& stream, const View& x, const View& y) {
  if (size_of(x.dtype) == 16 && x.rank < int(kMaxRank)) return copy_elements(stream, halves_of(x), halves_of(y));
  const int64_t n = x.size();
  if (n == 0) return;
  const Pair p = merge(x, y);
  if (p.rank == 0 || (p.rank == 1 && p.from[0] == 1 && p.to[0] == 1))
    return stream.backend->copy(stream, y.data, x.data, size_t(n) * size_of(x.dtype), CopyKind::within_device);
  switch (size_of(x.dtype)) {
    case 1: return copy<uint8_t>(stream, x, y, p);
    case 2: return copy<uint16_t>(stream, x, y, p);
    case 4: return copy<uint32_t>(stream, x, y, p);
    default: return copy<uint64_t>(stream, x, y, p);
  }
}

namespace {
const GpuKernels<&copy_elements> registered;
}

}  // namespace lamina::kernels::cuda
