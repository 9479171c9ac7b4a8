// Starting a kernel that nvcc compiled, and what a card says of how many of its blocks fit.
#pragma once
#include "runtime/device/launch_shape.h"
#include "runtime/device/stream.h"

namespace lamina::cuda {

// A failure stays cudart's last error, which CudaBackend::launch takes and names. `arguments`: a pointer to each.
void launch_kernel(Stream& stream, const LaunchShape& shape, const void* kernel, void** arguments);
// Whether the launch before this has failed; the error stays.
bool launch_failed(const Stream& stream);

// Blocks of a launch that the whole card holds at once; 0: not one fits.
int resident_blocks(Device device, const void* kernel, unsigned threads, size_t shared_bytes);
// Blocks of the largest cluster, at most `most`, each with all of a block's shared memory; 0: there is none. A card may have fewer
// multiprocessors side by side than its kind has, or be a part of one.
int largest_cluster(Device device, const void* kernel, unsigned threads, int most);

}  // namespace lamina::cuda
