// A failed CUDA call becomes an Error of kind device, or out_of_memory.
#pragma once
#include <string>

#include "runtime/core/error.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/device/device.h"

namespace lamina::cuda {

// `doing` continues "cuda: cannot ...", as in "copy 64 bytes to the device".
Error error_of(const CudaApi& api, cudaError_t status, const std::string& doing, Device device);

// After such an error the process can do nothing more on the device.
bool ends_the_context(cudaError_t status);

inline void check(const CudaApi& api, cudaError_t status, const char* doing, Device device) {
  if (status != cudaSuccess) throw error_of(api, status, doing, device);
}

}  // namespace lamina::cuda
