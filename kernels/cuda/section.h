// The section kernel: runs a whole table of steps (kernels/section/table.h) in one launch.
#pragma once
#include "kernels/section/block_section.h"

namespace lamina::kernels::cuda {

// The instruction's args are a section::BlockSection. Blocks share the steps by its plan (kernels/section/blocks.h); all must be resident,
// so the launch is cooperative. All products are float32 with the CPU's order of sums, whatever precision is allowed
// (runtime/core/precision.h); softmax and cross entropy use scalar::exp. A label out of range stops the launch before any step that needs
// the loss, and the stream's next wait throws index.
void run_section(const KernelCall& call);

}  // namespace lamina::kernels::cuda
