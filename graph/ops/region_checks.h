// Helpers of the ops with regions. Internal to this folder.
#pragma once
#include "graph/ops/ops.h"

namespace lamina::ops {

// Throws unless the region's inputs have exactly these types.
void require_region_inputs(const char* op, const char* region, const Graph& graph, std::span<const TensorType> in);
void require_predicate(const char* op, const TensorType& type);
// One byte per type: whether it is floating point.
std::vector<uint8_t> floating(std::span<const TensorType> types);
std::vector<TensorType> types_of(const Graph& g, std::span<const Value> values);
// Appends the cotangents of the floating-point results in [first, last); zeros where one is missing.
void add_cotangents(const ir::VjpCall& call, size_t first, size_t last, std::vector<Value>& to);
// Expands gradients of the wanted inputs to one value for each of `inputs` inputs, invalid where not wanted. The first gradient belongs to
// input `first` or a later one.
std::vector<Value> spread(std::span<const Value> gradients, std::span<const uint8_t> wanted, size_t inputs, size_t first = 0);
// The results of a node, from its first one.
std::vector<Value> results_from(Value first, size_t count);
// The same, marked as batched where `out` says so.
std::vector<ir::Batched> batched_from(Value first, std::span<const uint8_t> out);
const ir::RegionTransforms& transforms_of(const char* op, const ir::RegionTransforms* transforms);
// where(mask, a, b) with one mask element per model and values with the model axis in front.
Value select_models(Graph& g, Value mask, Value a, Value b);
// Whether a region has an op that raises an error for some values, such as an index out of range or a singular matrix.
bool can_fail(const Graph& region);
// Values for a region that runs for all models, `active` or not: where it can fail, the models that are not have the batched values of the
// first that is, so that what is discarded fails no call. One must be active.
std::vector<Value> of_active_models(Graph& g, Value active, const Graph& region, std::vector<Value> values,
                                    std::span<const uint8_t> batched);
// Throws when a region prints or checks. When models take different branches, all branches run, and discarded ones would print as well.
void refuse_host_effects(const char* op, std::span<const ir::GraphRef> regions);
// Results: the maximum of a vector of numbers; whether any element of a vector of bools is true.
Value largest(Graph& g, Value x);
Value any(Graph& g, Value x);

}  // namespace lamina::ops
