#include "graph/passes/rules.h"

#include "graph/passes/passes.h"

namespace lamina::passes {

Value apply_rules(const Site& site, std::initializer_list<Rule> rules) {
  for (Rule rule : rules)
    if (const Value v = rule(site); v.valid()) return v;
  return {};
}

Value apply_rules(Graph& to, Value added, std::initializer_list<Rule> rules) {
  const Node node = to[added];
  if (node.inputs.empty() || node.types.size() != 1) return added;
  const Value now = apply_rules({to, node, node.inputs, node.types[0]}, rules);
  return now.valid() ? now : added;
}

Graph simplified(const Graph& g, std::initializer_list<Rule> rules) {
  Rewriter rewriter(g);
  bool changed = false;
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    Value now;
    if (node.types.size() == 1 && !node.inputs.empty() && !has_effects(node)) {
      rewriter.stand_at(i);
      now = apply_rules({rewriter.to, node, rewriter[node.inputs], node.types[0]}, rules);
    }
    if (now.valid())
      rewriter.map({i, 0}, now), changed = true;
    else
      rewriter.copy(i);
  }
  // Replaced nodes are unused; simplifying them again would be wasted.
  return changed ? remove_dead_nodes(rewriter.finish()) : rewriter.finish();
}

bool reduces_nothing(const Site& site) {
  const Shape& shape = site.to.type(site.in(0)).shape;
  const AxesOrAll& axes = ir::attrs_of<ops::ReduceAttrs>(*site.node.attrs).axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (axes.contains(i, shape.size()) && !(shape[i] == Dim(1))) return false;
  return true;
}

}  // namespace lamina::passes
