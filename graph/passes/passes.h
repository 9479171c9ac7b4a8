// All passes, with one sentence each. Their order, and why, is in pipeline.cpp.
#pragma once
#include "graph/ir/graph.h"

namespace lamina::passes {

using ir::Graph;

// Inlines checkpoint and custom_gradient. Nodes that a checkpoint's gradient recomputes are kept from merging with the originals by `after`
// nodes.
LAMINA_API Graph inline_checkpoints(const Graph& g);
// A read after an assign gives the assigned value, a second read the first; an assign overwritten before any read is dropped.
LAMINA_API Graph forward_assigned_values(const Graph& g);
// Drops pure nodes that no output or effect needs. Effects and inputs stay.
LAMINA_API Graph remove_dead_nodes(const Graph& g);
// Evaluates nodes whose inputs are all constants, when the results are at most 1 MiB.
LAMINA_API Graph fold_constants(const Graph& g);
// Identities that keep every bit: x*1, x/1, x-0, -(-x), repeated transposes and reshapes, broadcasts that the consumer does anyway.
LAMINA_API Graph simplify_algebra(const Graph& g);
// Identities that may round differently or lose the sign of zero: x+0, (x*a)*b = x*(a*b), x^2, sums over axes of length 1.
LAMINA_API Graph simplify_arithmetic(const Graph& g);
// Merges two scans over the same values with the same nodes when one stacks more outputs (those that its gradient reads).
LAMINA_API Graph merge_loops(const Graph& g);
// A cond on a constant becomes the branch taken; a loop that never runs becomes its initial values; a short, small scan is unrolled.
LAMINA_API Graph fold_branches(const Graph& g);
// Drops unused results of loops and branches, with the nodes inside that only they need. A carried value that never changes becomes a
// capture.
LAMINA_API Graph drop_unused_loop_values(const Graph& g);
// Moves loop-invariant nodes before the loop, except those that could fail and those that would only take memory.
LAMINA_API Graph hoist_invariants(const Graph& g);
// Common subexpressions: pure nodes with the same op, attributes and inputs become one.
LAMINA_API Graph merge_equal_nodes(const Graph& g);
// matmul(transpose(a), b) becomes a matmul that reads a transposed.
LAMINA_API Graph fold_transposes_into_matmul(const Graph& g);
// A product of a stack [..., m, k] with one matrix becomes a product of all its rows, and so do the elementwise nodes around it.
LAMINA_API Graph flatten_products(const Graph& g);
// matmul + bias + activation becomes one dense.
LAMINA_API Graph fuse_dense(const Graph& g);
// The products of a dense layer's gradient become dense_grad_input (with the activation's slope) and dense_update (with the elementwise
// operations on the gradients of weight and bias, which are then never written to memory).
LAMINA_API Graph fuse_dense_backward(const Graph& g);
// Connected elementwise nodes of one shape become one fused_elementwise.
LAMINA_API Graph fuse_elementwise(const Graph& g);
// For CPUs: where an elementwise node takes a layer's gradients of all leaves of a batch (data_parallel), it becomes a region of one
// dense_update, which makes these gradients part by part in a core's cache. Only where x and dz have at most `most_bytes`. Not in the list:
// a GPU's blocks make each leaf's by itself.
LAMINA_API Graph join_leaves(const Graph& g, int64_t most_bytes);
// Trades work for memory: most values made before the graph's memory peak and used after it are computed again there, by the same nodes on
// the same values, so with the same bits. Of each `stride` in a row, the first is kept; 0: none is recomputed. Nodes with effects or
// regions run once.
LAMINA_API Graph recompute_values(const Graph& g, int stride);

}  // namespace lamina::passes
