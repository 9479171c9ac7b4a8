// Max pooling of images: the maximum of each window, and its position.
#pragma once
#include <cstdint>

#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

struct PoolSizes {
  int64_t images = 0, height = 0, width = 0, channels = 0;  // x [images, height, width, channels]
  int64_t out_height = 0, out_width = 0;                    // y [images, out_height, out_width, channels]
  int64_t window_height = 1, window_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t before_height = 0, before_width = 0;  // padding above and to the left, which never wins
};

// y, and index i64 of y's shape: the position of the first maximum in its image, (row * width + column) * channels + channel. NaN if the
// window has a NaN. Every window must cover part of its image. All contiguous. T: any numeric type.
template <class T>
void max_pool2d(Stream&, const View& x, const View& y, const View& index, PoolSizes sizes);
// dx, of x's shape: zeros plus dy, each at its index, added in the order of windows, half types in float. T: a floating type.
template <class T>
void max_pool2d_grad(Stream&, const View& dy, const View& index, const View& dx, PoolSizes sizes);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
using cpu::PoolSizes;
template <class T>
void max_pool2d(Stream&, const View& x, const View& y, const View& index, PoolSizes sizes);
template <class T>
void max_pool2d_grad(Stream&, const View& dy, const View& index, const View& dx, PoolSizes sizes);
}  // namespace lamina::kernels::cuda
