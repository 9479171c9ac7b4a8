// The section kernel: a whole table of steps (kernels/section/table.h) as one launch.
#pragma once
#include "kernels/cuda/device.h"
#include "kernels/section/blocks.h"

namespace lamina::kernels::cuda {

// Args of the instruction are a section::BlockSection. Blocks share the steps as its plan says (kernels/section/blocks.h), so all of them must be
// resident: the launch is a cooperative one. float32 with the order of sums that the CPU has, unless a product's precision has another name
// (runtime/core/precision.h); exponentials of softmax and cross entropy are
// scalar::exp's. A label out of range stops the launch before any step that needs the loss; the
// stream's next wait throws Error index.
void run_section(const KernelCall& call);

namespace resident {
struct Arguments;
}
// The same kernel where some product is in another precision than float32 (section_mma.h); section_tensor_cores.cu has it, so that the plain
// kernel keeps its registers.
void launch_with_tensor_cores(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments);

}  // namespace lamina::kernels::cuda
