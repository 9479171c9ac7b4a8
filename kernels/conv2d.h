// Two-dimensional convolution of images, and its two gradients. Each is linear in both operands, and the gradients of each are the other
// two. The order of sums depends only on the sizes. f16 and bf16 are computed in float and rounded once.
#pragma once
#include <cstdint>

#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// y[n, i, j, o] = sum over a, b, c of x[n, i*stride + a*dilation - before, (the same for j and b), c] * w[a, b, c, o]; x is 0 outside.
// Channels and filters are split into `groups` that are computed separately.
struct ConvSizes {
  int64_t images = 0, height = 0, width = 0, channels = 0;  // x [images, height, width, channels]
  int64_t out_height = 0, out_width = 0, filters = 0;       // y [images, out_height, out_width, filters]
  int64_t window_height = 0, window_width = 0;              // w [window_height, window_width, channels / groups, filters]
  int64_t stride_height = 1, stride_width = 1;
  int64_t dilation_height = 1, dilation_width = 1;
  int64_t before_height = 0, before_width = 0;  // padding above and to the left
  int64_t groups = 1;
};

// All contiguous. T: f16, bf16, float, double.
template <class T>
void conv2d(Stream&, const View& x, const View& w, const View& y, ConvSizes sizes);
// dx, from the gradient of y.
template <class T>
void conv2d_grad_input(Stream&, const View& dy, const View& w, const View& dx, ConvSizes sizes);
// dw.
template <class T>
void conv2d_grad_filter(Stream&, const View& x, const View& dy, const View& dw, ConvSizes sizes);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
// Large convolutions are run by cuDNN (runtime/cuda/convolutions.h), with its own order of sums; others have that of
// kernels/cuda/product.h.
using cpu::ConvSizes;
template <class T>
void conv2d(Stream&, const View& x, const View& w, const View& y, ConvSizes sizes);
template <class T>
void conv2d_grad_input(Stream&, const View& dy, const View& w, const View& dx, ConvSizes sizes);
template <class T>
void conv2d_grad_filter(Stream&, const View& x, const View& dy, const View& dw, ConvSizes sizes);
}  // namespace lamina::kernels::cuda
