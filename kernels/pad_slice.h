// pad_slice: zeros, with x at regularly spaced positions.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// y: contiguous. place: x's shape with strides in y, starting `offset` elements into y. x may be strided. Any dtype.
void pad_slice(Stream&, const View& x, const View& y, View place, int64_t offset);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
void pad_slice(Stream&, const View& x, const View& y, View place, int64_t offset);
}  // namespace lamina::kernels::cuda
