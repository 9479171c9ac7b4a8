#include "graph/ops/region_checks.h"

#include <algorithm>

namespace lamina::ops {

void require_region_inputs(const char* op, const char* region, const Graph& graph, std::span<const TensorType> in) {
  if (graph.inputs.size() != in.size())
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": the ", region, " takes ", graph.inputs.size(), " values"),
                                              .where = "",
                                              .why = cat("it is given ", in.size()),
                                              .fix = ""});
  for (size_t i = 0; i < in.size(); ++i)
    if (!(graph.type(graph.inputs[i]) == in[i]))
      throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": value ", i, " of the ", region, " is ", graph.type(graph.inputs[i])),
                                                .where = "",
                                                .why = cat("it is given ", in[i]),
                                                .fix = ""});
}

void require_predicate(const char* op, const TensorType& type) {
  if (type.dtype != DType::boolean || !type.shape.empty())
    throw Error(ErrorKind::type, {.what = cat(op, ": the condition is ", type),
                                  .where = "",
                                  .why = "a condition is one bool",
                                  .fix = "compare, and reduce several to one"});
}

std::vector<uint8_t> floating(std::span<const TensorType> types) {
  std::vector<uint8_t> out;
  for (const TensorType& t : types) out.push_back(has_gradients(t.dtype));
  return out;
}

std::vector<TensorType> types_of(const Graph& g, std::span<const Value> values) {
  std::vector<TensorType> out;
  for (Value v : values) out.push_back(g.type(v));
  return out;
}

void add_cotangents(const ir::VjpCall& call, size_t first, size_t last, std::vector<Value>& to) {
  for (size_t i = first; i < last; ++i) {
    const TensorType type = call.graph.type(call.results[i]);
    if (!has_gradients(type.dtype)) continue;
    to.push_back(call.cotangents[i].valid() ? call.cotangents[i] : full(call.graph, type, 0));
  }
}

std::vector<Value> spread(std::span<const Value> gradients, std::span<const uint8_t> wanted, size_t inputs, size_t first) {
  std::vector<Value> out(inputs);
  size_t next = 0;
  for (size_t i = 0; first + i < inputs; ++i)
    if (wanted[i]) out[first + i] = gradients[next++];
  return out;
}

std::vector<Value> results_from(Value first, size_t count) {
  std::vector<Value> out;
  for (size_t i = 0; i < count; ++i) out.push_back({first.node, first.result + int(i)});
  return out;
}

std::vector<ir::Batched> batched_from(Value first, std::span<const uint8_t> out) {
  std::vector<ir::Batched> results;
  for (size_t i = 0; i < out.size(); ++i) results.push_back({{first.node, first.result + int(i)}, bool(out[i])});
  return results;
}

const ir::RegionTransforms& transforms_of(const char* op, const ir::RegionTransforms* transforms) {
  if (!transforms) internal_error(cat(op, " was given nothing to transform its regions with"));
  return *transforms;
}

Value select_models(Graph& g, Value mask, Value a, Value b) {
  Shape shape = g.type(mask).shape;
  shape.resize(std::max<size_t>(1, g.type(a).rank()), Dim(1));
  return select(g, reshape(g, mask, shape), a, b);
}

bool can_fail(const Graph& region) {
  return std::any_of(region.nodes().begin(), region.nodes().end(), [&](const ir::Node& node) {
    return node.op->can_fail ||
           std::any_of(node.regions.begin(), node.regions.end(), [](const ir::GraphRef& inner) { return can_fail(*inner); });
  });
}

std::vector<Value> of_active_models(Graph& g, Value active, const Graph& region, std::vector<Value> values,
                                    std::span<const uint8_t> batched) {
  if (!can_fail(region)) return values;
  const TensorType numbers{DType::i64, g.type(active).shape};
  const Value first = broadcast_to(g, argmax(g, astype(g, active, DType::i32), 0, true), numbers.shape);
  const Value places = select(g, active, iota(g, numbers, 0), first);
  for (size_t i = 0; i < values.size(); ++i)
    if (batched[i]) values[i] = gather(g, values[i], places, 0);
  return values;
}

void refuse_host_effects(const char* op, std::span<const ir::GraphRef> regions) {
  for (const ir::GraphRef& region : regions)
    for (const ir::Node& node : region->nodes())
      if (ir::has_host_effect(node))
        throw Error(ErrorKind::invalid_argument,
                    {.what = cat(op, ": under vmap a branch or loop with a condition per model cannot ",
                                 node.op == &def::print ? "print" : "print or check"),
                     .where = text(node.line),
                     .why = "all models run together, also those that are not on this way",
                     .fix = "print or check outside of the branch or loop, with lm.where for what does not count"});
}

Value largest(Graph& g, Value x) { return max(g, x); }
Value any(Graph& g, Value x) { return greater(g, sum(g, astype(g, x, DType::i32)), scalar(g, DType::i32, 0)); }

}  // namespace lamina::ops
