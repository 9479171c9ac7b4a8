// Helpers that passes share: questions about nodes, and the order that effects ask for.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"

namespace lamina::passes {

using ir::Graph;
using ir::Node;
using ir::Rewriter;
using ir::Value;

// For each node, how many times live nodes and the graph's outputs use its results (result by result: `Uses::of`).
class Uses {
 public:
  explicit Uses(const Graph& g);
  int of(Value v) const { return counts_[size_t(first_value_[size_t(v.node)] + v.result)]; }
  bool live(int node) const { return live_[size_t(node)]; }

 private:
  std::vector<int> first_value_, counts_;
  std::vector<char> live_;
};

using ir::has_effects;
bool is_pure(const Node& node);  // has no effects and is not an input
inline bool is(const Node& node, const ir::OpDef& op) { return node.op == &op; }
// One scalar operation per element of its result, inputs broadcast.
bool is_elementwise(const Node& node);
// Whether a value is a constant with one number in all its elements, seen through broadcast_to and reshape; which.
const ir::Literal* uniform_constant(const Graph& g, Value v);
// The activation that a node is, or with `gradient` whose gradient it is; one with a parameter when that is a number, and for a slope that
// is told from the result one that keeps the sign.
std::optional<ops::ActivationAttrs> activation_of(const Graph& g, const Node& node, bool gradient = false);
// Whether inputs of these shapes broadcast to exactly `shape`.
bool broadcasts_to(std::span<const Shape> inputs, const Shape& shape);

// For each node, the nodes that must run before it although it uses none of their results: effects in program order per resource,
// host effects among themselves and with all assignments (a check may stop the program), and nodes with regions that have effects against
// everything that has.
std::vector<std::vector<int>> effect_order(const Graph& g);
// Units of nodes (unit_of[node], any numbers) in an order in which each can run as a whole; as near to program order as possible.
// Internal error when two units need each other. Nodes with unit -1 are left out.
std::vector<std::vector<int>> order_units(const Graph& g, const std::vector<int>& unit_of);

}  // namespace lamina::passes
