// Bias and activation, or the activation's slope, are applied to a tile of the product before it is stored. cuBLASLt adds the bias and relu
// itself; other activations follow as an elementwise program.
#include "kernels/dense.h"

#include "kernels/batched_matmul.h"
#include "kernels/cuda/activate.h"
#include "kernels/cuda/library_product.h"
#include "kernels/cuda/product.h"
#include "kernels/gpu_kernel.h"
#include "kernels/reduce.h"

namespace lamina::kernels::cuda {
namespace {

// One copy of each for all stores.
template <class C>
LAMINA_DEVICE_CALL C activated(C z, Activation activation, C alpha) {
  return activate(z, activation, alpha);
}
template <class C>
LAMINA_DEVICE_CALL C through(C dy, C y, Activation activation, C alpha) {
  return through_activation(dy, y, activation, alpha);
}

template <class T>
struct Layer {
  T* y;
  int64_t rows, columns;
  const T* bias;  // null: none
  Axes biases;
  Activation activation;
  compute_t<T> alpha;
  int64_t batch = 0;
  LAMINA_DEVICE void start(int64_t b) { batch = b; }
  LAMINA_DEVICE void operator()(int64_t row, int64_t column, compute_t<T> v) const {
    if (bias) v += widen(bias[biases.offset(batch) + column]);
    y[(batch * rows + row) * columns + column] = narrow<T>(activated(v, activation, alpha));
  }
};
template <class T>
struct Gradient {
  T* dx;
  int64_t rows, columns;
  const T* y;  // of dx's shape; null: no activation
  Activation activation;
  compute_t<T> alpha;
  int64_t batch = 0;
  LAMINA_DEVICE void start(int64_t b) { batch = b; }
  LAMINA_DEVICE void operator()(int64_t row, int64_t column, compute_t<T> v) const {
    const int64_t at = (batch * rows + row) * columns + column;
    dx[at] = narrow<T>(y ? through(v, compute_t<T>(widen(y[at])), activation, alpha) : v);
  }
};

}  // namespace

template <class T>
void dense(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, Activation activation, float alpha,
           Precision precision) {
  const View &x = *in[0], &w = *in[1], &y = *out[0];
  const View* bias = in.size() == 3 ? in[2] : nullptr;
  if (y.size() == 0) return;
  const bool relu = activation == Activation::relu;
  if (library_product(stream, x, w, y, false, false, bias, relu ? lamina::cuda::Epilogue::relu : lamina::cuda::Epilogue::none, precision)) {
    const View* const same[] = {&y};
    if (!relu && activation != Activation::none) elementwise(stream, same, same, activation_code(activation, y.dtype, alpha));
    return;
  }
  const int64_t rows = y.shape[y.rank - 2], columns = y.shape[y.rank - 1], depth = x.shape[x.rank - 1];
  Layer<T> store{y.as<T>(), rows, columns, nullptr, {}, activation, compute_t<T>(alpha)};
  if (bias) {
    store.bias = bias->as<const T>();
    if (y.rank == 3) store.biases.add(y.shape[0], bias->rank == 2 && bias->shape[0] != 1 ? bias->strides[0] : 0);
  }
  product<compute_t<T>>(stream, Matrix<T>{x.as<const T>(), depth, 1, true, batches_of(x, y)},
                        Matrix<T>{w.as<const T>(), 1, columns, false, batches_of(w, y)}, store, y.size() / (rows * columns), rows, columns,
                        depth);
}

template <class T>
void dense_grad_input(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, Activation activation, float alpha,
                      Precision precision) {
  const View &dz = *in[0], &w = *in[1], &dx = *out[0];
  const View* y = in.size() == 3 && activation != Activation::none ? in[2] : nullptr;
  if (dx.size() == 0) return;
  if (library_product(stream, dz, w, dx, false, true, nullptr, lamina::cuda::Epilogue::none, precision)) {
    const View *const operands[] = {&dx, y}, *const same[] = {&dx};
    if (y) elementwise(stream, operands, same, activation_grad_code(activation, dx.dtype, alpha));
    return;
  }
  const int64_t rows = dx.shape[dx.rank - 2], columns = dx.shape[dx.rank - 1], depth = dz.shape[dz.rank - 1];
  const Gradient<T> store{dx.as<T>(), rows, columns, y ? y->as<const T>() : nullptr, activation, compute_t<T>(alpha)};
  product<compute_t<T>>(stream, Matrix<T>{dz.as<const T>(), depth, 1, true, batches_of(dz, dx)},
                        Matrix<T>{w.as<const T>(), depth, 1, true, batches_of(w, dx)}, store, dx.size() / (rows * columns), rows, columns,
                        depth);
}

template <class T>
void dense_grad_weights(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, Precision precision) {
  const View &x = *in[0], &dz = *in[1], &dw = *out[0], &db = *out[1];
  if (dw.size() > 0 && library_product(stream, x, dz, dw, true, false, &db, lamina::cuda::Epilogue::bias_gradient, precision)) return;
  batched_matmul<T>(stream, x, dz, dw, true, false, precision);
  reduce(stream, dz, db, section::Reduction::sum, 1u << 0);
}

namespace {
const GpuKernels<LAMINA_FLOATING(dense), LAMINA_FLOATING(dense_grad_input), LAMINA_FLOATING(dense_grad_weights)> registered;
}

}  // namespace lamina::kernels::cuda
