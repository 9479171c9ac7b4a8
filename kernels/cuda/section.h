// The section kernel: a whole table of steps (kernels/section/table.h) as one launch.
#pragma once
#include "kernels/cuda/section_block.h"
#include "kernels/section/blocks.h"

namespace lamina::kernels::cuda {

// Args of the instruction are a section::BlockSection. Blocks share the steps as its plan says (kernels/section/blocks.h), so all of them
// must be resident: the launch is a cooperative one. float32 with the order of sums that the CPU has, unless a product's precision has
// another name (runtime/core/precision.h); exponentials of softmax and cross entropy are scalar::exp's. A label out of range stops the
// launch before any step that needs the loss; the stream's next wait throws Error index.
void run_section(const KernelCall& call);

// The same kernel in other files, so that this one keeps its registers: where some product is in another precision than float32
// (section_mma.h),
void launch_with_tensor_cores(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments);
// and where the blocks are one cluster (kernels/section/stages.h), in every precision.
void launch_in_cluster(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments);
// How many blocks, at most so many, can be one cluster with all of a block's shared memory each; 0: none.
int largest_cluster(Device device, int most);
#if defined(__CUDACC__)
int resident_with_tensor_cores(Device device);  // blocks that the card holds at once
#endif

}  // namespace lamina::kernels::cuda
