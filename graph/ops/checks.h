// Checks that several shape rules share, so that their messages agree.
#pragma once
#include "graph/ir/op.h"

namespace lamina::ops {

// The axis counted from the front; negative ones count from the end.
int axis_of(const char* op, int64_t axis, const TensorType& in);
void require_floating(const char* op, const TensorType& in);
void require_integer(const char* op, const char* argument, const TensorType& in);
// Refuses dtypes of which ops are made of ops on others (graph/frontend/rare_dtypes.h).
void require_common(const char* op, const TensorType& in);
void require_numeric(const char* op, const TensorType& in);  // not bool
void require_same_dtype(const char* op, const TensorType& a, const TensorType& b);
void require_rank(const char* op, const Shape& result);  // at most the rank that kernels can address
// Checks the state of a draw of this shape: i64 {seed, counter}; if each model has its own state, leading axes equal the draw's.
void require_state(const char* op, const TensorType& state, const Shape& draw);
Error does_not_fit(const char* op, const TensorType& a, const TensorType& b, const std::string& why, const std::string& fix);

}  // namespace lamina::ops
