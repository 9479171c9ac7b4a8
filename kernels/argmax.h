// argmax: the index of the first maximum along one axis; of the first NaN, if there is one.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// x: any dtype and strides. out: contiguous i64 with the axis removed or of length 1. The axis must not be empty.
LAMINA_API void argmax(Stream&, const View& x, const View& out, int axis);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
void argmax(Stream&, const View& x, const View& out, int axis);
}  // namespace lamina::kernels::cuda
