// From elementwise nodes to the programs that kernels and sections run.
#pragma once
#include "graph/ir/graph.h"
#include "graph/ops/kernel_call.h"
#include "kernels/elementwise.h"

namespace lamina::ops {

// The program of a region: its inputs, constants filled with one number, and nodes whose op has a scalar_op (astype too). Anything else
// is an internal error.
LAMINA_API kernels::ElementwiseCode code_of(const ir::Graph& region);
// The program of one op on operands of these types.
LAMINA_API kernels::ElementwiseCode code_of(kernels::ScalarOp op, std::span<const TensorType> in, DType result);

// The kernel that runs a program; none for one that is too long for a GPU's.
Kernel elementwise_kernel(On on, kernels::ElementwiseCode code);
// The program as a section step over rows x n; false when an operand broadcasts in another way than a step can.
bool elementwise_step(const ir::KernelRequest& request, kernels::ElementwiseCode code, ir::SectionStep& step);

}  // namespace lamina::ops
