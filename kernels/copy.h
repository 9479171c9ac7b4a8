// copy: y[index] = x[index] for views of any strides and one shape.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// T: an unsigned type of the elements' size. The views must not overlap.
template <class T>
void copy(Stream&, const View& x, const View& y);
// The same for a dtype known at run time.
void copy_elements(const View& x, const View& y);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
void copy_elements(Stream&, const View& x, const View& y);
}  // namespace lamina::kernels::cuda
