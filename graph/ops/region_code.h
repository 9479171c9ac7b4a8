// Translates elementwise nodes to the programs that kernels and sections run.
#pragma once
#include "graph/ir/graph.h"
#include "graph/ops/kernel_call.h"
#include "kernels/elementwise.h"

namespace lamina::ops {

// Translates a region of inputs, constants of one number, and nodes whose op has a scalar_op (astype too). Refuses anything else, for `op`.
LAMINA_API kernels::ElementwiseCode code_of(const char* op, const ir::Graph& region);
// Translates one op with operands of these types.
LAMINA_API kernels::ElementwiseCode code_of(kernels::ScalarOp op, std::span<const TensorType> in, DType result);

// The kernel that runs a program; empty if the program is too long for a GPU's kernel.
Kernel elementwise_kernel(On on, kernels::ElementwiseCode code);
// The program as a section step over rows x n; false when an operand broadcasts in a way that steps do not support.
bool elementwise_step(const ir::KernelRequest& request, kernels::ElementwiseCode code, ir::SectionStep& step);

}  // namespace lamina::ops
