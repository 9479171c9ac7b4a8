// Passes products to cuBLASLt (runtime/cuda/products.h) where there is a GPU. The emulation uses our own kernels only.
#pragma once
#include "runtime/core/view.h"
#include "runtime/cuda/products.h"
#include "runtime/device/backend.h"
#if defined(__CUDACC__)
#include "runtime/cuda/cuda_backend.h"
#endif

namespace lamina::kernels::cuda {

// False, with nothing done: our own kernel should run.
inline bool library_product([[maybe_unused]] Stream& stream, [[maybe_unused]] const View& a, [[maybe_unused]] const View& b,
                            [[maybe_unused]] const View& c, [[maybe_unused]] bool transpose_a, [[maybe_unused]] bool transpose_b,
                            [[maybe_unused]] const View* bias = nullptr,
                            [[maybe_unused]] lamina::cuda::Epilogue epilogue = lamina::cuda::Epilogue::none,
                            [[maybe_unused]] Precision precision = Precision::float32) {
#if defined(__CUDACC__)
  return static_cast<lamina::cuda::CudaBackend&>(*stream.backend)
      .products()
      .multiply(stream, a, b, c, transpose_a, transpose_b, bias, epilogue, precision);
#else
  return false;
#endif
}

}  // namespace lamina::kernels::cuda
