// Passes batch normalisation to cuDNN (runtime/cuda/batch_norm.h) where there is a GPU. The emulation uses our own kernels, unless a test
// provides a library.
#pragma once
#include <functional>

#include "kernels/batch_norm.h"
#include "runtime/cuda/batch_norm.h"
#if defined(__CUDACC__)
#include "runtime/cuda/cuda_backend.h"
#endif

namespace lamina::kernels::cuda {

#if !defined(__CUDACC__)
struct EmulatedBatchNorm {
  std::function<void(const View& x, const View& y, double epsilon, const lamina::cuda::BatchNorm::Forward&)> forward;
  std::function<void(const View& x, const View& dy, const View& dx, const lamina::cuda::BatchNorm::Gradient&)> gradient;
};
inline EmulatedBatchNorm emulated_batch_norm;
#endif

// False, with nothing done: our own kernels should run.
template <class Vectors>
bool library_batch_norm([[maybe_unused]] Stream& stream, [[maybe_unused]] const View& x, [[maybe_unused]] const View& y,
                        [[maybe_unused]] double epsilon, [[maybe_unused]] Vectors&& vectors) {
#if defined(__CUDACC__)
  return static_cast<lamina::cuda::CudaBackend&>(*stream.backend).batch_norm().forward(stream, x, y, epsilon, vectors);
#else
  if (!emulated_batch_norm.forward) return false;
  return emulated_batch_norm.forward(x, y, epsilon, vectors()), true;
#endif
}
template <class Vectors>
bool library_batch_norm_gradient([[maybe_unused]] Stream& stream, [[maybe_unused]] const View& x, [[maybe_unused]] const View& dy,
                                 [[maybe_unused]] const View& dx, [[maybe_unused]] double epsilon, [[maybe_unused]] Vectors&& vectors) {
#if defined(__CUDACC__)
  return static_cast<lamina::cuda::CudaBackend&>(*stream.backend).batch_norm().gradient(stream, x, dy, dx, epsilon, vectors);
#else
  if (!emulated_batch_norm.gradient) return false;
  return emulated_batch_norm.gradient(x, dy, dx, vectors()), true;
#endif
}

}  // namespace lamina::kernels::cuda
