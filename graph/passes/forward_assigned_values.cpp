#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

// What is known about one resource at a point in the program.
struct Known {
  Value value;              // the value that a read would give, in the old graph
  int pending_assign = -1;  // the last assign, if nothing can have read it yet
};

}  // namespace

Graph forward_assigned_values(const Graph& g) {
  std::vector<Known> known(g.resources.size());
  std::vector<Value> instead(size_t(g.size()));  // per read node: the value it gives
  std::vector<char> dropped(size_t(g.size()));
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    if (!has_effects(node)) continue;
    const int resource = ir::resource_of(node);
    if (node.op->effect == ir::Effect::read && resource >= 0) {
      Known& now = known[size_t(resource)];
      if (now.value.valid() && g.type(now.value) == node.types[0]) {
        instead[size_t(i)] = now.value;
      } else {
        now.value = {i, 0};
        now.pending_assign = -1;
      }
    } else if (node.op->effect == ir::Effect::write && resource >= 0) {
      Known& now = known[size_t(resource)];
      if (now.pending_assign >= 0) dropped[size_t(now.pending_assign)] = true;
      Value value = node.inputs[0];
      if (instead[size_t(value.node)].valid()) value = instead[size_t(value.node)];
      now = {value, i};
    } else {
      // It may print, stop the program, or use Variables in its regions, so all earlier assignments must have happened.
      const bool only_host = node.op->effect == ir::Effect::host || node.op->effect == ir::Effect::ranks;
      for (Known& now : known) now = {only_host ? now.value : Value{}, -1};
    }
  }
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (dropped[size_t(i)]) continue;
    if (instead[size_t(i)].valid())
      rewriter.map({i, 0}, rewriter[instead[size_t(i)]]);
    else
      rewriter.copy(i);
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
