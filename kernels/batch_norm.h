// Batch normalisation for training as one kernel: only on a GPU, where cuDNN may run it. Elsewhere it is built from other ops.
#pragma once
#include <span>

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
// contiguous. Our own kernels give the bits of the nodes in graph/ops/batch_norm.cpp; the library sums in its own order. T: float or
// double.
template <class T>
void batch_norm_train(Stream&, std::span<const View* const> in, std::span<const View* const> out, BatchNormArgs args);
// in: x, gamma with scale, mean, variance, dy. out: dx, dgamma with scale, dbeta with center.
template <class T>
void batch_norm_train_grad(Stream&, std::span<const View* const> in, std::span<const View* const> out, BatchNormArgs args);

}  // namespace lamina::kernels::cuda
