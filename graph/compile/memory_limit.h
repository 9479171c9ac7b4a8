// Whether a plan fits its devices, before anything runs.
#pragma once
#include "graph/compile/emit.h"

namespace lamina::compile {

// What is left for temporaries on a device beside results and constants.
int64_t room_for_arena(const Lowered& lowered, Device device, const Options& options);
// Throws out_of_memory when the plan's temporaries, results and constants on a device take more than it has, or than
// Options::device_memory; names the largest tensors at the peak. Not under a memory budget, whose plans are still being compared.
void check_memory(const Lowered& lowered, const ir::Graph& g, const Options& options);

}  // namespace lamina::compile
