// Which kernel runs a plan. The launch and fn.explain() both ask here.
#pragma once
#include "kernels/section/blocks.h"

namespace lamina::section {

enum class SectionKernel { plain, with_tensor_cores };

inline SectionKernel kernel_of(const BlockPlan& plan) {
  return plan.tensor_cores ? SectionKernel::with_tensor_cores : SectionKernel::plain;
}
// As a profiler shows it.
constexpr const char* name_of(SectionKernel kernel) {
  switch (kernel) {
    case SectionKernel::with_tensor_cores: return "section_kernel_with_tensor_cores";
    case SectionKernel::plain: break;
  }
  return "section_kernel";
}

}  // namespace lamina::section
