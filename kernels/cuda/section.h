// The section kernel: a whole table of steps (kernels/section/table.h) as one launch.
#pragma once
#include "kernels/section/blocks.h"

namespace lamina::kernels::cuda {

// Args of the instruction are a section::BlockSection. Blocks share the steps as its plan says (kernels/section/blocks.h), so all of them must be
// resident: the launch is a cooperative one. float32 with the order of sums that the CPU has; exponentials of softmax and cross entropy are
// scalar::exp's. A label out of range stops the launch before any step that needs the loss; the
// stream's next wait throws Error index.
void run_section(const KernelCall& call);

}  // namespace lamina::kernels::cuda
