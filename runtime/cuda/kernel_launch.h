// Launches kernels compiled by nvcc and queries their occupancy.
#pragma once
#include "runtime/device/launch_shape.h"
#include "runtime/device/stream.h"

namespace lamina::cuda {

// On failure the error stays cudart's last error; CudaBackend::launch reads and reports it. `arguments`: a pointer to each.
void launch_kernel(Stream& stream, const LaunchShape& shape, const void* kernel, void** arguments);
// Whether the previous launch failed; the error is kept.
bool launch_failed(const Stream& stream);

// Number of blocks of such a launch that fit on the device at once; 0: none fits.
int resident_blocks(Device device, const void* kernel, unsigned threads, size_t shared_bytes);

}  // namespace lamina::cuda
