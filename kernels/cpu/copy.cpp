#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/tiles.h"

namespace lamina::kernels::cpu {
namespace {

// The axes that remain after merging neighbours that are contiguous in both views; innermost last.
struct Axes {
  int rank = 0;
  int64_t shape[kMaxRank], from[kMaxRank], to[kMaxRank];
};

Axes merge(const View& x, const View& y) {
  Axes a;
  for (int i = 0; i < x.rank; ++i) {
    if (x.shape[i] == 1) continue;
    int last = a.rank - 1;
    if (last >= 0 && a.from[last] == x.strides[i] * x.shape[i] && a.to[last] == y.strides[i] * x.shape[i]) {
      a.shape[last] *= x.shape[i];
    } else {
      a.shape[++last] = x.shape[i];
      a.rank = last + 1;
    }
    a.from[last] = x.strides[i];
    a.to[last] = y.strides[i];
  }
  return a;
}

// In registers, for elements of 4 and 8 bytes. Returns whether.
template <class T>
bool transpose(const T* x, int64_t ld_x, int64_t rows, int64_t columns, T* y, int64_t ld_y) {
  if constexpr (sizeof(T) == 4)
    tiles().transpose_f32(reinterpret_cast<const float*>(x), ld_x, rows, columns, reinterpret_cast<float*>(y), ld_y);
  else if constexpr (sizeof(T) == 8)
    tiles().transpose_f64(reinterpret_cast<const double*>(x), ld_x, rows, columns, reinterpret_cast<double*>(y), ld_y);
  return sizeof(T) == 4 || sizeof(T) == 8;
}

template <class T>
void copy_axes(const T* x, T* y, const Axes& a, int axis) {
  int64_t n = a.shape[axis], from = a.from[axis], to = a.to[axis];
  if (axis == a.rank - 1) {
    if (from == 1 && to == 1)
      std::memcpy(y, x, size_t(n) * sizeof(T));
    else
#pragma GCC unroll 8  // slices with a step: 1.3 times the loop as it stands
      for (int64_t i = 0; i < n; ++i) y[i * to] = x[i * from];
    return;
  }
  // Elements that are repeated: one loop for each place among the copies, over as many elements as stay in the cache.
  if (const int64_t m = a.shape[axis + 1]; axis == a.rank - 2 && a.from[axis + 1] == 0 && m <= 16) {
    constexpr int64_t kChunk = 512;
    const int64_t to1 = a.to[axis + 1];
    for (int64_t i = 0; i < n; i += kChunk)
      for (int64_t q = 0; q < m; ++q)
        for (int64_t p = i; p < std::min(n, i + kChunk); ++p) y[p * to + q * to1] = x[p * from];
    return;
  }
  // Transposes in squares, so that whole cache lines are used on both sides.
  if (axis == a.rank - 2 && from == 1 && a.from[axis + 1] > 1) {
    constexpr int64_t kSide = 16;
    int64_t m = a.shape[axis + 1], from1 = a.from[axis + 1], to1 = a.to[axis + 1];
    if (to1 == 1 && transpose(x, from1, m, n, y, to)) return;
    for (int64_t i = 0; i < n; i += kSide)
      for (int64_t j = 0; j < m; j += kSide)
        for (int64_t p = i; p < std::min(n, i + kSide); ++p)
          for (int64_t q = j; q < std::min(m, j + kSide); ++q) y[p * to + q * to1] = x[p + q * from1];
    return;
  }
  for (int64_t i = 0; i < n; ++i) copy_axes(x + i * from, y + i * to, a, axis + 1);
}

}  // namespace

template <class T>
void copy(Stream&, const View& x, const View& y) {
  if (x.size() == 0) return;
  Axes a = merge(x, y);
  if (a.rank == 0)
    *y.as<T>() = *x.as<const T>();
  else
    copy_axes(x.as<const T>(), y.as<T>(), a, 0);
}

namespace {
struct Pair {  // a complex number of two doubles
  uint64_t words[2];
};
}  // namespace

void copy_elements(const View& x, const View& y) {
  Stream none;
  switch (size_of(x.dtype)) {
    case 1: return copy<uint8_t>(none, x, y);
    case 2: return copy<uint16_t>(none, x, y);
    case 4: return copy<uint32_t>(none, x, y);
    case 8: return copy<uint64_t>(none, x, y);
    default: return copy<Pair>(none, x, y);
  }
}

template void copy<uint8_t>(Stream&, const View&, const View&);
template void copy<uint16_t>(Stream&, const View&, const View&);
template void copy<uint32_t>(Stream&, const View&, const View&);
template void copy<uint64_t>(Stream&, const View&, const View&);

}  // namespace lamina::kernels::cpu
