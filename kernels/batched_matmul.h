// c[batch] = op(a[batch]) op(b[batch]): matrices are the last two axes, leading axes broadcast, op optionally transposes. Each matrix is
// one call of cpu::matmul (kernels/section/table.h), whose order of sums depends only on its shape.
#pragma once
#include "runtime/core/precision.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// a, b, c: contiguous. T: f16, bf16 (computed in float, rounded once), float, double, int32_t, int64_t (wrapping). The precision is
// ignored.
template <class T>
void batched_matmul(Stream&, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b,
                    Precision = Precision::float32);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
// Sums along the inner axis in the order of kernels/cuda/product.h, unless the product is large enough for cuBLASLt
// (runtime/cuda/products.h), which uses its own order. Only cuBLASLt applies the precision.
template <class T>
void batched_matmul(Stream&, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b,
                    Precision precision = Precision::float32);
}  // namespace lamina::kernels::cuda
