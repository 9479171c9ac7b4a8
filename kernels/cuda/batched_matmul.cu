#include "kernels/batched_matmul.h"

#include "kernels/cuda/product.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
struct Matrix {
  const T* data;
  int64_t outer_step, depth_step;
  bool depth_is_near;
  Axes batches;
  LAMINA_DEVICE void start(int64_t batch) { data += batches.offset(batch) - at, at = batches.offset(batch); }
  LAMINA_DEVICE compute_t<T> operator()(int64_t outer, int64_t k) const { return widen(data[outer * outer_step + k * depth_step]); }
  int64_t at = 0;  // of the batch that data points to
};
template <class T>
struct Result {
  T* data;
  int64_t rows, columns, batch = 0;
  LAMINA_DEVICE void start(int64_t b) { batch = b; }
  LAMINA_DEVICE void operator()(int64_t row, int64_t column, compute_t<T> v) const { data[(batch * rows + row) * columns + column] = narrow<T>(v); }
};

// How an operand's leading axes meet those of the result.
Axes batches_of(const View& a, const View& c) {
  Axes axes;
  for (int i = 0; i < c.rank - 2; ++i) {
    const int own = i - (c.rank - a.rank);
    axes.add(c.shape[i], own >= 0 && a.shape[own] != 1 ? a.strides[own] : 0);
  }
  return axes;
}

}  // namespace

template <class T>
void batched_matmul(Stream& stream, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b) {
  if (c.size() == 0) return;
  const int64_t rows = c.shape[c.rank - 2], columns = c.shape[c.rank - 1], depth = a.shape[transpose_a ? a.rank - 2 : a.rank - 1];
  const Matrix<T> left{a.as<const T>(), transpose_a ? 1 : depth, transpose_a ? rows : 1, !transpose_a, batches_of(a, c)};
  const Matrix<T> right{b.as<const T>(), transpose_b ? depth : 1, transpose_b ? 1 : columns, transpose_b, batches_of(b, c)};
  product<compute_t<T>>(stream, left, right, Result<T>{c.as<T>(), rows, columns}, c.size() / (rows * columns), rows, columns, depth);
}

#define LAMINA_MATMUL(T) template void batched_matmul<T>(Stream&, const View&, const View&, const View&, bool, bool);
LAMINA_MATMUL(f16)
LAMINA_MATMUL(bf16)
LAMINA_MATMUL(float)
LAMINA_MATMUL(double)
LAMINA_MATMUL(int32_t)
LAMINA_MATMUL(int64_t)
#undef LAMINA_MATMUL

}  // namespace lamina::kernels::cuda
