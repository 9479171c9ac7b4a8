// softmax and log_softmax along one axis: exp(x - max) / sum(exp(x - max)), and x - max - log(sum(exp(x - max))). A row's result does not
// depend on other rows or on the instruction set. f16 and bf16 are computed in float, sums in double.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// x and y: contiguous, of one shape; axis counts from the front. T: f16, bf16, float or double.
template <class T>
void softmax(Stream&, const View& x, const View& y, int axis);
template <class T>
void log_softmax(Stream&, const View& x, const View& y, int axis);

// The same for consecutive rows of n. y may be x.
void softmax_rows(const float* x, float* y, int64_t rows, int64_t n);
void log_softmax_rows(const float* x, float* y, int64_t rows, int64_t n);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
// A row's sum is computed by 32 lanes, which take every 32nd element and are added as a balanced tree.
template <class T>
void softmax(Stream&, const View& x, const View& y, int axis);
template <class T>
void log_softmax(Stream&, const View& x, const View& y, int axis);
}  // namespace lamina::kernels::cuda
