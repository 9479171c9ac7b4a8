// Gradients for half types: computed in f32 from the same operands and rounded once. The op's result is recomputed in f32, because the
// rounded one is too inexact for the slope.
#pragma once
#include "graph/ops/ops.h"

namespace lamina::ops {

inline Value widened(Graph& g, Value v) {
  if (!is_half(g.type(v).dtype)) return v;
  const ir::Literal* number = ir::constant_value(g, v);
  return number && number->type.rank() == 0 ? scalar(g, DType::f32, number->first()) : astype(g, v, DType::f32);
}

template <auto vjp, const ir::OpDef& def>
std::vector<Value> vjp_in_f32(const ir::VjpCall& call) {
  Graph& g = call.graph;
  DType dtype = DType::f32;  // of the operands that get gradients
  for (Value v : call.cotangents)
    if (v.valid()) dtype = g.type(v).dtype;
  if (!is_half(dtype)) return vjp(call);
  std::vector<Value> in, results, cotangents;
  for (Value v : call.inputs) in.push_back(widened(g, v));
  for (Value v : call.cotangents) cotangents.push_back(v.valid() ? widened(g, v) : v);
  const int node = g.add(def, call.attrs.with_dims({}), in).node;
  for (size_t i = 0; i < call.results.size(); ++i) results.push_back({node, int(i)});
  std::vector<Value> out = vjp(ir::VjpCall{g, call.attrs, in, results, cotangents, call.regions, call.transforms});
  for (Value& v : out)
    if (v.valid()) v = astype(g, v, dtype);
  return out;
}

}  // namespace lamina::ops
