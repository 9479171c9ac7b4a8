// Passes convolutions to cuDNN (runtime/cuda/convolutions.h) where there is a GPU. The emulation uses our own kernels only.
#pragma once
#include "kernels/conv2d.h"
#include "runtime/cuda/convolutions.h"
#if defined(__CUDACC__)
#include "kernels/copy.h"
#include "runtime/cuda/cuda_backend.h"
#endif

namespace lamina::kernels::cuda {

// False, with nothing done: our own kernel should run.
inline bool library_convolution([[maybe_unused]] Stream& stream, [[maybe_unused]] lamina::cuda::ConvolutionKind kind,
                                [[maybe_unused]] const ConvSizes& s, [[maybe_unused]] const View& first,
                                [[maybe_unused]] const View& second, [[maybe_unused]] const View& result) {
#if defined(__CUDACC__)
  const lamina::cuda::ConvolutionSizes sizes{s.images,         s.height,        s.width,        s.channels,
                                             s.out_height,     s.out_width,     s.filters,      s.window_height,
                                             s.window_width,   s.stride_height, s.stride_width, s.dilation_height,
                                             s.dilation_width, s.before_height, s.before_width, s.groups};
  return static_cast<lamina::cuda::CudaBackend&>(*stream.backend)
      .convolutions()
      .run(stream, kind, sizes, first, second, result, copy_elements);
#else
  return false;
#endif
}

}  // namespace lamina::kernels::cuda
