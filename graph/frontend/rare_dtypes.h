// Ops on dtypes for which few kernels exist (is_rare in runtime/core/dtype.h), as ops on other dtypes: complex numbers as their parts, wide
// unsigned integers as int64. What moves elements without looking at them takes every dtype itself. Called by apply.
#pragma once
#include <span>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/ir/op.h"

namespace lamina {

// Whether an operand, or the dtype that the op is asked for, is rare.
bool concerns_rare_dtypes(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs);
// False if the op takes these operands as they are. Throws type, with the fix, where complex numbers have no such op.
bool apply_rare(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, CallSite at, std::vector<Tensor>& out);

// The same for operands of which one is complex; graph/frontend/complex_ops.cpp.
bool apply_complex(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, CallSite at, std::vector<Tensor>& out);

}  // namespace lamina
