// A planned section as CUDA source, for NVRTC: the section kernel (kernels/cuda/section_kernel.h) with what its steps do known to the
// compiler. Steps that differ only in where their operands lie and who waits for whom are of one form, and have one body, through which the
// kernel goes as often as there are such steps. Where things lie is read from the same table that the interpreter walks, and the state
// between launches is the same: either kernel can go on where the other has stopped. The bodies are those of the interpreter, so they give
// the same bits.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernels/section/blocks.h"

namespace lamina::section {

// More forms than this are not compiled: each takes about as long as an ordinary kernel.
inline constexpr int kMostForms = 64;

// Sets BlockStep::form of all steps, in plan.steps and plan.bytes: numbers from 0, -1 of turns; kMostForms of those that are too many.
// plan_blocks() calls it.
void number_forms(BlockPlan& plan);

// Why there is no source for this plan, or "".
LAMINA_API std::string why_not_compiled(const BlockPlan& plan);
// "section_dense_softmax_dense_update": the kinds of steps in the order in which they come first.
LAMINA_API std::string compiled_name(const BlockPlan& plan);
// The kernel compiled_name(plan), extern "C", with resident::Arguments as its argument, launched like section_kernel. It includes
// "kernels/cuda/section_kernel.h", which section_headers() has with all that it includes.
LAMINA_API std::string compiled_source(const BlockPlan& plan);

// The headers of the section kernel by their names in #include, and their text; of those that NVRTC cannot read, the parts that are needed.
LAMINA_API const std::vector<std::pair<std::string, std::string>>& section_headers();

}  // namespace lamina::section
