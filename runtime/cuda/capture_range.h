// Starts and stops capture by a profiler that waits for it (nsys --capture-range=cudaProfilerApi, ncu --profile-from-start off).
#pragma once
#include "runtime/cuda/cuda_api.h"

namespace lamina::cuda {

// Throws device with cudart's name for the error.
void capture_range(const CudaApi& api, bool on);

}  // namespace lamina::cuda
