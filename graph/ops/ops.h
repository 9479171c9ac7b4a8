// The ops as functions that add a node. Gradients, passes and the frontend use them.
#pragma once
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/attrs.h"

namespace lamina::ops {

using ir::Graph;
using ir::Value;

namespace def {
#define OP(name) extern const ir::OpDef name;
#include "graph/ops/ops.inc"
}  // namespace def

// --- elementwise, from their table: NumPy broadcasting, operands of one dtype ---
#define LAMINA_NODE_1(name) \
  inline Value name(Graph& g, Value x) { return g.add(def::name, {x}); }
#define LAMINA_NODE_2(name) \
  inline Value name(Graph& g, Value a, Value b) { return g.add(def::name, {a, b}); }
#define LAMINA_NODE_3(name) \
  inline Value name(Graph& g, Value a, Value b, Value c) { return g.add(def::name, {a, b, c}); }
#define ELEMENTWISE(name, operands, ...) LAMINA_NODE_##operands(name)
#include "kernels/shared/elementwise_ops.inc"
#undef LAMINA_NODE_1
#undef LAMINA_NODE_2
#undef LAMINA_NODE_3
inline Value astype(Graph& g, Value x, DType dtype) {
  return g.type(x).dtype == dtype ? x : g.add(def::astype, ir::make_attrs(DTypeAttrs{dtype}), {x});
}
// The region is a graph of elementwise nodes and constants with the node's inputs and outputs. All outputs have one shape, to which the
// inputs broadcast.
inline Value fused_elementwise(Graph& g, ir::GraphRef region, std::vector<Value> inputs) {
  return g.add(def::fused_elementwise, nullptr, std::move(inputs), {std::move(region)});
}

// --- constants ---
inline Value constant(Graph& g, ir::Literal value) { return g.add_constant(std::move(value)); }
inline Value scalar(Graph& g, DType dtype, double value) { return g.add_constant(ir::Literal::filled({dtype, {}}, value)); }
// A scalar constant, broadcast to the type.
Value full(Graph& g, const TensorType& type, double value);
inline Value iota(Graph& g, const TensorType& type, int axis) { return g.add(def::iota, ir::make_attrs(IotaAttrs{type, axis}), {}); }

// --- variables ---
inline Value read(Graph& g, int resource) {
  return g.add(def::read, ir::make_attrs(ir::ResourceAttrs{resource, g.resources.at(size_t(resource)).type}), {});
}
inline void assign(Graph& g, int resource, Value value) {
  g.add(def::assign, ir::make_attrs(ir::ResourceAttrs{resource, g.resources.at(size_t(resource)).type}), {value});
}

// --- products ---
// Matrices are the last two axes, the others broadcast. Both operands have at least rank 2 (the frontend adds and drops axes for vectors).
inline Value matmul(Graph& g, Value a, Value b, bool transpose_a = false, bool transpose_b = false,
                    Precision precision = Precision::float32) {
  return g.add(def::matmul, ir::make_attrs(MatmulAttrs{transpose_a, transpose_b, precision}), {a, b});
}
// act(x w + b); x [r,k], w [k,n], b [n] or absent. alpha: elu's, or leaky_relu's slope. For an ensemble, w is [models,k,n], and the other
// operands may have that axis in front too; this holds for the next two ops as well.
inline Value dense(Graph& g, Value x, Value w, Value b, section::Activation activation, float alpha = 0,
                   Precision precision = Precision::float32) {
  return g.add(def::dense, ir::make_attrs(ActivationAttrs{activation, alpha, precision}),
               b.valid() ? std::vector{x, w, b} : std::vector{x, w});
}
// (dz w^T) * act'(y), where y [r,k] is the activation's result, or its input (section::of_input). Without y: dz w^T.
inline Value dense_grad_input(Graph& g, Value dz, Value w, Value y, section::Activation activation, float alpha = 0,
                              Precision precision = Precision::float32) {
  return g.add(def::dense_grad_input, ir::make_attrs(ActivationAttrs{activation, alpha, precision}),
               y.valid() ? std::vector{dz, w, y} : std::vector{dz, w});
}
// Region 0: (dw, extras...) -> results, where dw = x^T dz [k,n]. Region 1: (db, extras...) -> results, where db [n] are the column sums of
// dz. Results: region 0's, then region 1's. dw and db reach memory only if a region returns them. A region without outputs is not computed.
inline Value dense_update(Graph& g, Value x, Value dz, std::vector<Value> weight_extras, std::vector<Value> bias_extras,
                          ir::GraphRef weight_region, ir::GraphRef bias_region, Precision precision = Precision::float32) {
  std::vector<Value> in{x, dz};
  in.insert(in.end(), weight_extras.begin(), weight_extras.end());
  in.insert(in.end(), bias_extras.begin(), bias_extras.end());
  return g.add(def::dense_update, ir::make_attrs(DenseUpdateAttrs{int64_t(weight_extras.size()), precision}), std::move(in),
               {std::move(weight_region), std::move(bias_region)});
}

// --- reductions: over `axes`, by default all; keepdims keeps them as 1 ---
inline Value sum(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false) {
  return g.add(def::sum, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
inline Value mean(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false) {
  return g.add(def::mean, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
inline Value max(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false) {
  return g.add(def::max, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
inline Value min(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false) {
  return g.add(def::min, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
inline Value prod(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false) {
  return g.add(def::prod, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
// Cumulative sums along one axis. reverse: from the end; exclusive: without the element itself.
inline Value cumsum(Graph& g, Value x, int axis, bool reverse = false, bool exclusive = false) {
  return g.add(def::cumsum, ir::make_attrs(CumsumAttrs{axis, reverse, exclusive}), {x});
}
// i64 index of the first largest element along one axis.
inline Value argmax(Graph& g, Value x, int axis, bool keepdims = false) {
  return g.add(def::argmax, ir::make_attrs(ArgmaxAttrs{axis, keepdims}), {x});
}
// Undoes broadcasting: sums x over the axes that were added or stretched to get from `shape` to x's shape.
Value sum_to(Graph& g, Value x, const Shape& shape);

// --- shapes ---
inline Value reshape(Graph& g, Value x, Shape shape) {
  return g.type(x).shape == shape ? x : g.add(def::reshape, ir::make_attrs(ShapeAttrs{std::move(shape)}), {x});
}
inline Value broadcast_to(Graph& g, Value x, Shape shape) {
  return g.type(x).shape == shape ? x : g.add(def::broadcast_to, ir::make_attrs(ShapeAttrs{std::move(shape)}), {x});
}
inline Value transpose(Graph& g, Value x, std::vector<int64_t> axes) {
  return g.add(def::transpose, ir::make_attrs(TransposeAttrs{std::move(axes)}), {x});
}
// x[begin : end : step] per axis. With a positive step, negative indices count from the end; with a negative step, an end of -1 means
// before the first. Indices beyond the end are clamped, so INT64_MAX is the end of any length (the last element with a negative step).
inline Value slice(Graph& g, Value x, std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int64_t> step) {
  return g.add(def::slice, ir::make_attrs(SliceAttrs{std::move(begin), std::move(end), std::move(step), {}, {}}), {x});
}
// slice's gradient: zeros of `shape` with x at begin : : step.
inline Value pad_slice(Graph& g, Value x, Shape shape, std::vector<int64_t> begin, std::vector<int64_t> step) {
  return g.add(def::pad_slice, ir::make_attrs(PadSliceAttrs{std::move(shape), std::move(begin), std::move(step), {}}), {x});
}
inline Value concat(Graph& g, std::vector<Value> parts, int axis) {
  return g.add(def::concat, ir::make_attrs(AxisAttrs{axis}), std::move(parts));
}
// Slices of x along axis, selected by an integer tensor whose shape replaces the axis. Negative indices count from the end; one out of
// range is an error of kind index. x and indices may share their first `batch_axes` axes.
inline Value gather(Graph& g, Value x, Value indices, int axis, int batch_axes = 0) {
  return g.add(def::gather, ir::make_attrs(GatherAttrs{axis, batch_axes}), {x, indices});
}
// gather's gradient: zeros of `shape`, with updates added along axis at indices, in order.
inline Value scatter_add(Graph& g, Value updates, Value indices, Shape shape, int axis, int batch_axes = 0) {
  return g.add(def::scatter_add, ir::make_attrs(ScatterAttrs{std::move(shape), axis, batch_axes}), {updates, indices});
}
// 1 at the label, 0 elsewhere, along a new last axis; a label out of range gives a row of zeros.
inline Value one_hot(Graph& g, Value labels, int64_t classes, DType dtype) {
  return g.add(def::one_hot, ir::make_attrs(OneHotAttrs{classes, dtype}), {labels});
}

// --- probabilities ---
inline Value softmax(Graph& g, Value x, int axis) { return g.add(def::softmax, ir::make_attrs(AxisAttrs{axis}), {x}); }
inline Value log_softmax(Graph& g, Value x, int axis) { return g.add(def::log_softmax, ir::make_attrs(AxisAttrs{axis}), {x}); }
// logits [...,c], integer labels [...] -> result 0: losses [...], result 1: probabilities [...,c]. A label outside 0..c-1 is an error of
// kind index at run time.
inline Value sparse_cross_entropy(Graph& g, Value logits, Value labels) { return g.add(def::sparse_cross_entropy, {logits, labels}); }

// --- draws: `state` is i64[2] {seed, counter}; element i of a draw is Philox(seed, counter, i); the caller advances the counter ---
inline Value dropout(Graph& g, Value x, Value state, float rate) {
  return g.add(def::dropout, ir::make_attrs(DropoutAttrs{rate}), {x, state});
}
inline Value random_uniform(Graph& g, Value state, const TensorType& type, double low, double high) {
  return g.add(def::random_uniform, ir::make_attrs(RandomAttrs{type, low, high}), {state});
}
inline Value random_normal(Graph& g, Value state, const TensorType& type, double mean, double deviation) {
  return g.add(def::random_normal, ir::make_attrs(RandomAttrs{type, mean, deviation}), {state});
}

}  // namespace lamina::ops

#include "graph/ops/draws.h"
#include "graph/ops/image.h"
#include "graph/ops/indexing.h"
#include "graph/ops/regions.h"
#include "graph/ops/reporting.h"
#include "graph/ops/sorting.h"
