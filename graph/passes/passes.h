// Every pass: one declaration and one sentence each. Their order, and why, is in pipeline.cpp.
#pragma once
#include "graph/ir/graph.h"

namespace lamina::passes {

using ir::Graph;

// What the passes may know of the program that the graph becomes.
struct Target {
  Device device = {};        // where nodes go that have no device of their own
  DimBindings lengths = {};  // of symbols
  int stride = 0;            // of recompute_values; 0: no value is computed again
  Device device_of(const ir::Node& node) const { return node.device.value_or(device); }
  Target inside(const ir::Node& node) const { return {device_of(node), lengths, stride}; }  // of its regions
};

// A checkpoint becomes its nodes, and so does a custom_gradient. What a checkpoint's gradient computes again stays apart from them: it
// begins with `after` nodes.
LAMINA_API Graph inline_checkpoints(const Graph& g);
// batch_norm_train and its gradient become the nodes that they stand for, where the device's library is not to make them.
LAMINA_API Graph decompose_batch_norm(const Graph& g, const Target& target);
// Whether there is one that stays, in g or in a region.
LAMINA_API bool keeps_batch_norm(const Graph& g, const Target& target);
// A read after an assign is the assigned value, a second read is the first; an assign that a later one replaces unseen is dropped.
LAMINA_API Graph forward_assigned_values(const Graph& g);
// Drops pure nodes that neither an output nor an effect needs. Effects and inputs stay.
LAMINA_API Graph remove_dead_nodes(const Graph& g);
// Runs nodes whose inputs are all constants, now, when the results are at most 1 MiB.
LAMINA_API Graph fold_constants(const Graph& g);
// Identities that keep every bit: x*1, x/1, x-0, -(-x), transposes and reshapes in a row, broadcasts that the consumer does anyway.
LAMINA_API Graph simplify_algebra(const Graph& g);
// Identities that may round otherwise or lose the sign of zero: x+0, (x*a)*b = x*(a*b), x^2, sums over axes of length 1.
LAMINA_API Graph simplify_arithmetic(const Graph& g);
// Of two scans over the same values with the same nodes, where one stacks more (what its gradient reads), only that one stays.
LAMINA_API Graph merge_loops(const Graph& g);
// A cond on a constant is the branch that it takes; a loop that never runs is its first values; a short, small scan is its iterations.
LAMINA_API Graph fold_branches(const Graph& g);
// Results of loops and branches that nobody uses, and what only they need inside; a value that a loop carries without changing it is a
// capture.
LAMINA_API Graph drop_unused_loop_values(const Graph& g);
// What is the same in every iteration of a loop is computed once, before it: not where it could be an error, nor what only takes memory.
LAMINA_API Graph hoist_invariants(const Graph& g);
// Pure nodes with the same op, attributes and inputs become one.
LAMINA_API Graph merge_equal_nodes(const Graph& g);
// matmul(transpose(a), b) reads a transposed.
LAMINA_API Graph fold_transposes_into_matmul(const Graph& g);
// matmul + bias + activation becomes one dense.
LAMINA_API Graph fuse_dense(const Graph& g);
// The products of a dense layer's gradient become dense_grad_input (with the activation's mask) and dense_update (with all that is done
// to the weight's and bias's gradients element by element, so that these are not written to memory).
LAMINA_API Graph fuse_dense_backward(const Graph& g);
// Connected elementwise nodes of one shape become one fused_elementwise.
LAMINA_API Graph fuse_elementwise(const Graph& g);
// max_pool2d becomes max_pool2d_values where its device's library is to make it and none but its gradients asks for the places, which the
// library does not have.
LAMINA_API Graph use_libraries(const Graph& g, const Target& target);
// Less memory for more work: most of the values that are made before the graph's fullest moment and used after it are computed a second
// time, by the same nodes from the same values, so with the same bits. Of `stride` in a row the first is kept. What has effects or regions
// runs once.
LAMINA_API Graph recompute_values(const Graph& g, const Target& target);

}  // namespace lamina::passes
