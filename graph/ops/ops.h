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
#define LAMINA_NODE_1(name) Value name(Graph& g, Value x);
#define LAMINA_NODE_2(name) Value name(Graph& g, Value a, Value b);
#define LAMINA_NODE_3(name) Value name(Graph& g, Value a, Value b, Value c);
#define ELEMENTWISE(name, operands, ...) LAMINA_NODE_##operands(name)
#include "kernels/shared/elementwise_ops.inc"
#undef LAMINA_NODE_1
#undef LAMINA_NODE_2
#undef LAMINA_NODE_3
Value astype(Graph& g, Value x, DType dtype);
// The region is a graph of elementwise nodes and constants with the node's inputs and outputs. All outputs have one shape, to which the
// inputs broadcast.
Value fused_elementwise(Graph& g, ir::GraphRef region, std::vector<Value> inputs);

// --- constants ---
Value constant(Graph& g, ir::Literal value);
Value scalar(Graph& g, DType dtype, double value);
// A scalar constant, broadcast to the type.
Value full(Graph& g, const TensorType& type, double value);
// Of dtypes that no kernel adds or selects too: through their parts, or as int64.
Value sum_of_gradients(Graph& g, Value a, Value b);
Value select(Graph& g, Value condition, Value a, Value b);
Value as_real(Graph& g, Value z);
Value as_complex(Graph& g, Value pairs);
Value iota(Graph& g, const TensorType& type, int axis);

// --- variables ---
Value read(Graph& g, int resource);
void assign(Graph& g, int resource, Value value);

// --- products ---
// Matrices are the last two axes, the others broadcast. Both operands have at least rank 2 (the frontend adds and drops axes for vectors).
Value matmul(Graph& g, Value a, Value b, bool transpose_a = false, bool transpose_b = false, Precision precision = Precision::float32);
// act(x w + b); x [r,k], w [k,n], b [n] or absent. alpha: elu's, or leaky_relu's slope. For an ensemble, w is [models,k,n], and the other
// operands may have that axis in front too; this holds for the next two ops as well.
Value dense(Graph& g, Value x, Value w, Value b, section::Activation activation, float alpha = 0, Precision precision = Precision::float32);
// (dz w^T) * act'(y), where y [r,k] is the activation's result, or its input (section::of_input). Without y: dz w^T.
Value dense_grad_input(Graph& g, Value dz, Value w, Value y, section::Activation activation, float alpha = 0,
                       Precision precision = Precision::float32);
// Region 0: (dw, extras...) -> results, where dw = x^T dz [k,n]. Region 1: (db, extras...) -> results, where db [n] are the column sums of
// dz. Results: region 0's, then region 1's. dw and db reach memory only if a region returns them. A region without outputs is not computed.
Value dense_update(Graph& g, Value x, Value dz, std::vector<Value> weight_extras, std::vector<Value> bias_extras,
                   ir::GraphRef weight_region, ir::GraphRef bias_region, Precision precision = Precision::float32);

// --- reductions: over `axes`, by default all; keepdims keeps them as 1 ---
Value sum(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false);
Value mean(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false);
Value max(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false);
Value min(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false);
Value prod(Graph& g, Value x, AxesOrAll axes = {}, bool keepdims = false);
// Cumulative sums along one axis. reverse: from the end; exclusive: without the element itself.
Value cumsum(Graph& g, Value x, int axis, bool reverse = false, bool exclusive = false);
// i64 index of the first largest element along one axis.
Value argmax(Graph& g, Value x, int axis, bool keepdims = false);
// Undoes broadcasting: sums x over the axes that were added or stretched to get from `shape` to x's shape.
Value sum_to(Graph& g, Value x, const Shape& shape);

// --- shapes ---
Value reshape(Graph& g, Value x, Shape shape);
Value broadcast_to(Graph& g, Value x, Shape shape);
Value transpose(Graph& g, Value x, std::vector<int64_t> axes);
// x[begin : end : step] per axis. With a positive step, negative indices count from the end; with a negative step, an end of -1 means
// before the first. Indices beyond the end are clamped, so INT64_MAX is the end of any length (the last element with a negative step).
Value slice(Graph& g, Value x, std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int64_t> step);
// slice's gradient: zeros of `shape` with x at begin : : step.
Value pad_slice(Graph& g, Value x, Shape shape, std::vector<int64_t> begin, std::vector<int64_t> step);
Value concat(Graph& g, std::vector<Value> parts, int axis);
// Slices of x along axis, selected by an integer tensor whose shape replaces the axis. Negative indices count from the end; one out of
// range is an error of kind index. x and indices may share their first `batch_axes` axes.
Value gather(Graph& g, Value x, Value indices, int axis, int batch_axes = 0);
// gather's gradient: zeros of `shape`, with updates added along axis at indices, in order.
Value scatter_add(Graph& g, Value updates, Value indices, Shape shape, int axis, int batch_axes = 0);
// 1 at the label, 0 elsewhere, along a new last axis; a label out of range gives a row of zeros.
Value one_hot(Graph& g, Value labels, int64_t classes, DType dtype);

// --- probabilities ---
Value softmax(Graph& g, Value x, int axis);
Value log_softmax(Graph& g, Value x, int axis);
// logits [...,c], integer labels [...] -> result 0: losses [...], result 1: probabilities [...,c]. A label outside 0..c-1 is an error of
// kind index at run time.
Value sparse_cross_entropy(Graph& g, Value logits, Value labels);

// --- draws: `state` is i64[2] {seed, counter}; element i of a draw is Philox(seed, counter, i); the caller advances the counter ---
Value dropout(Graph& g, Value x, Value state, float rate);
Value random_uniform(Graph& g, Value state, const TensorType& type, double low, double high);
Value random_normal(Graph& g, Value state, const TensorType& type, double mean, double deviation);

}  // namespace lamina::ops

#include "graph/ops/collectives.h"
#include "graph/ops/draws.h"
#include "graph/ops/image.h"
#include "graph/ops/indexing.h"
#include "graph/ops/linalg.h"
#include "graph/ops/regions.h"
#include "graph/ops/reporting.h"
#include "graph/ops/sorting.h"
