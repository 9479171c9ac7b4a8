// Discrete Fourier transforms, by KissFFT's templates (Debian: libkissfft-dev), computed in double.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// x and y: contiguous [..., n, 2], pairs of real and imaginary part. y_k = sum over j of x_j e^(-2 pi i j k / n), or with a positive
// exponent when inverse; nothing is divided by n. The factors of n are transformed one after the other: n log n operations, and n^2 for a
// prime. T: float or double.
template <class T>
void fft(Stream&, const View& x, const View& y, bool inverse);

}  // namespace lamina::kernels::cpu
