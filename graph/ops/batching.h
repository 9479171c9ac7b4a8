// Shapes under vmap: what batching rules have in common. A batched value has the model axis first.
#pragma once
#include "graph/ops/ops.h"

namespace lamina::ops {

// The value with a model axis: an unbatched one is repeated.
Value with_model_axis(Graph& g, const ir::Batched& in, Dim size);
// A value that broadcasts as it did: between its model axis and its shape come as many 1s as `rank` asks for.
Value lift(Graph& g, const ir::Batched& in, size_t rank);
// All inputs, each with a model axis.
std::vector<Value> with_model_axes(Graph& g, std::span<const ir::Batched> in, Dim size);
// The shape with one more axis in front.
Shape with_model_axis(Dim size, const Shape& shape);
// Axis `from` becomes axis `to`, the others keep their order.
Value move_axis(Graph& g, Value x, int from, int to);

}  // namespace lamina::ops
