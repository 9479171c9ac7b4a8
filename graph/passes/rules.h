// Identities as rules: what simplify_algebra and simplify_arithmetic share.
#pragma once
#include <initializer_list>
#include <vector>

#include "graph/passes/rewrite.h"

namespace lamina::passes {

// A node of one result that a rule looks at. Its inputs have been simplified already, so one walk through the graph is enough.
struct Site {
  Graph& to;
  const Node& node;           // of the old graph
  std::vector<Value> inputs;  // in the new one
  const TensorType& type;     // of the result

  Value in(size_t i) const { return inputs[i]; }
  // Input i already has the result's dtype and shape.
  bool has_type(size_t i) const { return to.type(inputs[i]) == type; }
  const ir::Literal* number(size_t i) const { return uniform_constant(to, inputs[i]); }
  const Node& maker(size_t i) const { return to[inputs[i]]; }
};
// What the node's result is instead, in site.to; not valid where the identity does not fit.
using Rule = Value (*)(const Site& site);

// The first rule that fits.
Value apply_rules(const Site& site, std::initializer_list<Rule> rules);
// The node of a value that a rule has just added.
Value apply_rules(Graph& to, Value added, std::initializer_list<Rule> rules);
// The graph with each node replaced by what the first rule that fits gives.
Graph simplified(const Graph& g, std::initializer_list<Rule> rules);
// Whether the node, a reduction, goes over axes of length 1 alone.
bool reduces_nothing(const Site& site);

}  // namespace lamina::passes
