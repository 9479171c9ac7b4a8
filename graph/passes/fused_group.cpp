#include "graph/passes/fused_group.h"

#include <map>

#include "graph/passes/evaluate.h"

namespace lamina::passes {
namespace {

// Whether a member keeps its shape if its uniform constants become scalars.
bool shape_without_constants(const Graph& g, const Node& node) {
  std::vector<Shape> shapes;
  for (Value v : node.inputs) {
    if (uniform_constant(g, v)) continue;
    shapes.push_back(g.type(v).shape);
    if (shapes.back() == node.types[0].shape) return true;
  }
  return broadcasts_to(shapes, node.types[0].shape);
}

}  // namespace

FusedGroup make_group(const Graph& g, std::span<const Value> given, std::span<const int> members,
                      const std::function<bool(Value)>& wanted) {
  FusedGroup group;
  Graph inside;
  std::map<Value, Value> now;
  for (Value v : given) now[v] = inside.add_input(g.type(v));
  for (int member : members) {
    const Node& node = g[member];
    const bool constants_inside = shape_without_constants(g, node);
    std::vector<Value> inputs;
    for (Value v : node.inputs) {
      const ir::Literal* constant = constants_inside ? uniform_constant(g, v) : nullptr;
      if (constant && !now.contains(v)) {
        inputs.push_back(inside.add_constant(*uniform_element(*constant)));
        continue;
      }
      auto [at, fresh] = now.try_emplace(v);
      if (fresh) {
        at->second = inside.add_input(g.type(v));
        group.inputs.push_back(v);
      }
      inputs.push_back(at->second);
    }
    now[{member, 0}] = inside.copy(node, std::move(inputs));
  }
  auto give = [&](Value v) {
    if (!wanted(v)) return;
    group.outputs.push_back(v);
    inside.outputs.push_back(now[v]);
  };
  for (Value v : given) give(v);
  for (int member : members) give({member, 0});
  group.graph = std::make_shared<const Graph>(std::move(inside));
  return group;
}

}  // namespace lamina::passes
