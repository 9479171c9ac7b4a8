// The regions of cond, while_loop, scan and with_length as Programs, and the kernel that runs them (runtime/exec/control_flow.h).
#pragma once
#include "graph/compile/compile.h"
#include "graph/ops/ops.h"
#include "kernels/section/nested.h"

namespace lamina::compile {

struct ControlFlowKernel {
  Kernel kernel;
  int64_t scratch_bytes = 0;                      // what it needs as one more result
  std::shared_ptr<const section::Nested> nested;  // when its programs are sections: what a step does
  std::string why_no_step;                        // when they are not
};
ir::SectionStep nested_step(const section::Nested& nested, const ir::Node& node);
// `in` are concrete. The regions run where the node does.
ControlFlowKernel compile_control_flow(const ir::Node& node, std::span<const TensorType> in, Device device, const Options& options);

}  // namespace lamina::compile
