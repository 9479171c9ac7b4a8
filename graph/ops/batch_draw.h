// The batching rule of ops that draw.
#pragma once
#include "graph/ops/batching.h"

namespace lamina::ops {

// Batching rule of an op that draws numbers of its attributes' `type`; its only input is a generator's state. With one state per model,
// each model draws from its own, as it would alone. With one state for all, the draw gets the model index as one more axis, and element
// indices count over all models; states of outer models stay in front.
template <const ir::OpDef& op, class A>
std::vector<ir::Batched> batch_draw(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const ir::Batched& state = call.inputs[0];
  A a = ir::attrs_of<A>(call.attrs);
  const int outer = state.batched ? 0 : int(g.type(state.value).rank()) - 1;
  a.type.shape.insert(a.type.shape.begin() + outer, call.size);
  return {{move_axis(g, g.add(op, ir::make_attrs(std::move(a)), {state.value}), outer, 0), true}};
}

}  // namespace lamina::ops
