// Converts a failed CUDA call to an Error of kind device or out_of_memory.
#pragma once
#include <string>

#include "runtime/core/error.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/device/device.h"

namespace lamina::cuda {

// `doing` continues "cuda: cannot ...", as in "copy 64 bytes to the device".
Error error_of(const CudaApi& api, cudaError_t status, const std::string& doing, Device device);

// Whether the error is sticky: the process can no longer use the device.
bool ends_the_context(cudaError_t status);

inline void check(const CudaApi& api, cudaError_t status, const char* doing, Device device) {
  if (status != cudaSuccess) throw error_of(api, status, doing, device);
}

}  // namespace lamina::cuda
