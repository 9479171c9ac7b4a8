// Passes max pooling to cuDNN (runtime/cuda/pooling.h) where there is a GPU. The emulation uses our own kernels only.
#pragma once
#include "kernels/max_pool2d.h"
#include "runtime/cuda/pooling.h"
#if defined(__CUDACC__)
#include "runtime/cuda/cuda_backend.h"
#endif

namespace lamina::kernels::cuda {

#if defined(__CUDACC__)
inline lamina::cuda::PoolingSizes library_sizes(const PoolSizes& s) {
  return {s.images,        s.height,       s.width,         s.channels,     s.out_height,    s.out_width,
          s.window_height, s.window_width, s.stride_height, s.stride_width, s.before_height, s.before_width};
}
inline lamina::cuda::Pooling& pooling_of(Stream& stream) { return static_cast<lamina::cuda::CudaBackend&>(*stream.backend).pooling(); }
#endif

// False, with nothing done: our own kernel should run.
inline bool library_pooling([[maybe_unused]] Stream& stream, [[maybe_unused]] const PoolSizes& s, [[maybe_unused]] const View& x,
                            [[maybe_unused]] const View& y) {
#if defined(__CUDACC__)
  return pooling_of(stream).forward(stream, library_sizes(s), x, y);
#else
  return false;
#endif
}
inline bool library_pooling_gradient([[maybe_unused]] Stream& stream, [[maybe_unused]] const PoolSizes& s, [[maybe_unused]] const View& x,
                                     [[maybe_unused]] const View& y, [[maybe_unused]] const View& dy, [[maybe_unused]] const View& dx) {
#if defined(__CUDACC__)
  return pooling_of(stream).gradient(stream, library_sizes(s), x, y, dy, dx);
#else
  return false;
#endif
}

}  // namespace lamina::kernels::cuda
