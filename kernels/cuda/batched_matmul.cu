#include "kernels/batched_matmul.h"

#include "kernels/cuda/library_product.h"
#include "kernels/cuda/product.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
struct Result {
  T* data;
  int64_t rows, columns, batch = 0;
  LAMINA_DEVICE void start(int64_t b) { batch = b; }
  LAMINA_DEVICE void operator()(int64_t row, int64_t column, compute_t<T> v) const {
    data[(batch * rows + row) * columns + column] = narrow<T>(v);
  }
};

}  // namespace

template <class T>
void batched_matmul(Stream& stream, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b, Precision precision) {
  if (c.size() == 0) return;
  if (library_product(stream, a, b, c, transpose_a, transpose_b, nullptr, lamina::cuda::Epilogue::none, precision)) return;
  const int64_t rows = c.shape[c.rank - 2], columns = c.shape[c.rank - 1], depth = a.shape[transpose_a ? a.rank - 2 : a.rank - 1];
  const Matrix<T> left{a.as<const T>(), transpose_a ? 1 : depth, transpose_a ? rows : 1, !transpose_a, batches_of(a, c)};
  const Matrix<T> right{b.as<const T>(), transpose_b ? depth : 1, transpose_b ? 1 : columns, transpose_b, batches_of(b, c)};
  product<compute_t<T>>(stream, left, right, Result<T>{c.as<T>(), rows, columns}, c.size() / (rows * columns), rows, columns, depth);
}

namespace {
const GpuKernels<LAMINA_FLOATING(batched_matmul), &batched_matmul<int32_t>, &batched_matmul<int64_t>> registered;
}

}  // namespace lamina::kernels::cuda
