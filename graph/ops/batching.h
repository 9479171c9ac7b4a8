// Shape helpers of batching rules. A batched value has the model axis first.
#pragma once
#include "graph/ops/ops.h"

namespace lamina::ops {

// Adds a model axis to an unbatched value by repeating it.
Value with_model_axis(Graph& g, const ir::Batched& in, Dim size);
// The same for what a loop carries. A key that the region draws from becomes a key per model, because an unbatched one gives each model
// numbers of its own (batch_draw.h).
Value with_own_models(Graph& g, const ir::Batched& in, Dim size, const Graph& region, Value input);
// Inserts 1s between the model axis and the shape up to `rank`, so that the value broadcasts as it did unbatched.
Value lift(Graph& g, const ir::Batched& in, size_t rank);
// All inputs, each with a model axis.
std::vector<Value> with_model_axes(Graph& g, std::span<const ir::Batched> in, Dim size);
// The shape with one more axis in front.
Shape with_model_axis(Dim size, const Shape& shape);
// Axis `from` becomes axis `to`, the others keep their order.
Value move_axis(Graph& g, Value x, int from, int to);
// Images [models, n, height, width, channels] as [models n, height, width, channels].
Value models_as_images(Graph& g, Value x);

}  // namespace lamina::ops
