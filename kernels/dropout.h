// dropout: y[i] = x[i] / (1 - rate) with probability 1 - rate, else 0, decided by element i's Philox word (kernels/shared/philox.h).
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// x, y: contiguous, of one shape. state: i64 [2] {seed, counter}, or [models...,2]: then x's leading axes are the models, and elements are
// numbered within their model, from `first` on. T: f16, bf16, float or double.
template <class T>
void dropout(Stream&, const View& x, const View& state, const View& y, float rate, int64_t first);

// Elements first .. first + count of a draw; x and y are those of the first. y may be x.
void dropout_run(const float* x, const int64_t* state, float rate, float* y, int64_t first, int64_t count);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
template <class T>
void dropout(Stream&, const View& x, const View& state, const View& y, float rate, int64_t first);
}  // namespace lamina::kernels::cuda
