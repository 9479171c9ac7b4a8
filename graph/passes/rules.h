// Rewrite rules for identities, shared by simplify_algebra and simplify_arithmetic.
#pragma once
#include <initializer_list>
#include <vector>

#include "graph/passes/rewrite.h"

namespace lamina::passes {

// A node with one result to which a rule may apply. Its inputs are already simplified, so one pass over the graph is enough.
struct Site {
  Graph& to;
  const Node& node;           // of the old graph
  std::vector<Value> inputs;  // in the new graph
  const TensorType& type;     // of the result

  Value in(size_t i) const { return inputs[i]; }
  // Whether input i already has the result's dtype and shape.
  bool has_type(size_t i) const { return to.type(inputs[i]) == type; }
  const ir::Literal* number(size_t i) const { return uniform_constant(to, inputs[i]); }
  const Node& maker(size_t i) const { return to[inputs[i]]; }
};
// Returns the replacement in site.to; invalid if the identity does not apply.
using Rule = Value (*)(const Site& site);

// Applies the first rule that fits.
Value apply_rules(const Site& site, std::initializer_list<Rule> rules);
// The same for the node of a value that a rule has just added.
Value apply_rules(Graph& to, Value added, std::initializer_list<Rule> rules);
// The graph with the first fitting rule applied to each node.
Graph simplified(const Graph& g, std::initializer_list<Rule> rules);
// Whether a reduction covers only axes of length 1.
bool reduces_nothing(const Site& site);

}  // namespace lamina::passes
