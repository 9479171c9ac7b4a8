// The section kernel: runs a whole table of steps (kernels/section/table.h) in one launch.
#pragma once
#include "kernels/cuda/section_block.h"
#include "kernels/section/blocks.h"

namespace lamina::kernels::cuda {

// The instruction's args are a section::BlockSection. Blocks share the steps by its plan (kernels/section/blocks.h); all must be resident,
// so the launch is cooperative. float32 with the CPU's order of sums, unless a product has another precision (runtime/core/precision.h);
// softmax and cross entropy use scalar::exp. A label out of range stops the launch before any step that needs the loss, and the stream's
// next wait throws index.
void run_section(const KernelCall& call);

// A variant in another file, so that this one keeps its registers: for products in a precision other than float32 (section_mma.h).
void launch_with_tensor_cores(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments);
#if defined(__CUDACC__)
int resident_with_tensor_cores(Device device);  // blocks that fit on the card at once
#endif

}  // namespace lamina::kernels::cuda
