// apply: every op runs through it. While this thread traces, the op becomes a node; otherwise a program of this one op is compiled, cached
// and run. Active GradientTapes record both.
#pragma once
#include <span>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/ir/op.h"

namespace lamina {

// One tensor per result. Concrete inputs must be on one device; tensors without axes may be on any. Errors name the user's line `at`.
LAMINA_API std::vector<Tensor> apply(const ir::OpDef& op, ir::AttrsRef attrs, std::span<const Tensor> inputs, CallSite at = {},
                                     std::span<const ir::GraphRef> regions = {});
// The same for an op with one result.
LAMINA_API Tensor apply_one(const ir::OpDef& op, ir::AttrsRef attrs, std::span<const Tensor> inputs, CallSite at = {});

// Number of cached one-op programs; for tests.
LAMINA_API size_t eager_cache_size();
LAMINA_API void clear_eager_cache();

}  // namespace lamina
