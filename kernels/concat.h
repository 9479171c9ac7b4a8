// concat: joins the inputs along an axis.
#pragma once
#include <span>

#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// in: any number of views, strided or not, of equal shape except along the axis; out[0]: contiguous. Any dtype.
void concat(Stream&, std::span<const View* const> in, std::span<const View* const> out, int axis);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
void concat(Stream&, std::span<const View* const> in, std::span<const View* const> out, int axis);
}  // namespace lamina::kernels::cuda
