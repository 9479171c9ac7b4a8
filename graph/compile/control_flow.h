// The regions of cond, while_loop, scan and with_length as Programs, and the kernel that runs them (runtime/exec/control_flow.h).
#pragma once
#include "graph/compile/compile.h"
#include "graph/ops/ops.h"
#include "kernels/section/nested.h"

namespace lamina::compile {

struct ControlFlowKernel {
  Kernel kernel;
  int64_t scratch_bytes = 0;                      // size of an extra result that the kernel uses as scratch
  std::shared_ptr<const section::Nested> nested;  // the section step, when the regions compile to sections
  std::string why_no_step;                        // why there is no section step otherwise
};
ir::SectionStep nested_step(const section::Nested& nested, const ir::Node& node);
// Input types `in` are concrete. The regions run on the node's device.
ControlFlowKernel compile_control_flow(const ir::Node& node, std::span<const TensorType> in, Device device, const Options& options);

}  // namespace lamina::compile
