// Batch normalisation in training as one kernel: only on a GPU, where a library may serve (cuDNN). Elsewhere it is made of other ops.
#pragma once
#include <span>

#include "kernels/gpu_kernel.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels {

struct BatchNormArgs {
  double epsilon = 1e-3;
  bool scale = true, center = true;
};

}  // namespace lamina::kernels

namespace lamina::kernels::cuda {

// in: x [..., c], gamma [c] with scale, beta [c] with center. out: y, mean [c], variance [c] (divided by the number of rows). All
// contiguous. Our own kernels give what graph/ops/batch_norm.cpp's nodes give, rounding by rounding; the library sums in orders of its own.
// T: float or double.
template <class T>
LAMINA_GPU_KERNEL void batch_norm_train(Stream&, std::span<const View* const> in, std::span<const View* const> out, BatchNormArgs args);
// in: x, gamma with scale, mean, variance, dy. out: dx, dgamma with scale, dbeta with center.
template <class T>
LAMINA_GPU_KERNEL void batch_norm_train_grad(Stream&, std::span<const View* const> in, std::span<const View* const> out,
                                             BatchNormArgs args);

}  // namespace lamina::kernels::cuda
