// one_hot and iota: tensors computed from positions.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// y[..., c] = 1 where c is the label, else 0. labels: contiguous, any integer type; y: contiguous, any dtype.
template <class T>
void one_hot(Stream&, const View& labels, const View& y);
// y[index] = index[axis]. y: contiguous, any dtype but bool.
template <class T>
void iota(Stream&, const View& y, int axis);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
template <class T>
void one_hot(Stream&, const View& labels, const View& y);
template <class T>
void iota(Stream&, const View& y, int axis);
}  // namespace lamina::kernels::cuda
