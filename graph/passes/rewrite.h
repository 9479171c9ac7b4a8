// Helpers that passes share: questions about nodes, and the order required by effects.
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

// Counts uses by live nodes and by the graph's outputs: per node all its results, or one result (`Uses::of`).
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
bool is_pure(const Node& node);  // has no effects and is no input
inline bool is(const Node& node, const ir::OpDef& op) { return node.op == &op; }
// Whether the node computes one scalar operation per result element, with broadcast inputs.
bool is_elementwise(const Node& node);
// The scalar of a constant whose elements are all equal, also behind broadcast_to and reshape; otherwise null.
const ir::Literal* uniform_constant(const Graph& g, Value v);
// The activation that a node is, or with `gradient` the activation whose gradient it is. A parameter must be a constant; if the slope is
// computed from the result, the parameter must keep the sign.
std::optional<ops::ActivationAttrs> activation_of(const Graph& g, const Node& node, bool gradient = false);
// Whether inputs of these shapes broadcast to exactly `shape`.
bool broadcasts_to(std::span<const Shape> inputs, const Shape& shape);

// For each node, the nodes that must run before it besides its inputs. Effects keep program order per resource; host effects keep order
// among themselves and with all assignments (a check may stop the program); collectives keep order among themselves; nodes with effects in
// regions keep order with all nodes that have effects.
std::vector<std::vector<int>> effect_order(const Graph& g);
// Orders units of nodes (unit_of[node], any numbers; -1: left out) so that each runs as a whole, close to program order. Internal error
// when two units need each other.
std::vector<std::vector<int>> order_units(const Graph& g, const std::vector<int>& unit_of);

}  // namespace lamina::passes
