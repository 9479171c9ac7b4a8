// The rules every graph keeps: inputs before uses, types as the shape rules say, effects on known resources.
#include "graph/ir/graph.h"

namespace lamina::ir {

void verify(const Graph& g) {
  std::vector<TensorType> types;
  for (int i = 0; i < g.size(); ++i) {
    const Node& n = g[i];
    auto broken = [&](const std::string& what) { internal_error(cat("%", i, " = ", n.op->name, ": ", what)); };
    if (n.op->inputs >= 0 && int(n.inputs.size()) != n.op->inputs)
      broken(cat("has ", n.inputs.size(), " inputs instead of ", n.op->inputs));
    if (int(n.regions.size()) != n.op->regions) broken(cat("has ", n.regions.size(), " regions instead of ", n.op->regions));
    for (const GraphRef& region : n.regions) {
      if (!region) broken("has an empty region");
      verify(*region);
    }
    types.clear();
    for (Value v : n.inputs) {
      if (v.node < 0 || v.node >= i) broken(cat("reads %", v.node, ", which does not come before it"));
      if (v.result < 0 || v.result >= int(g[v.node].types.size()))
        broken(cat("reads result ", v.result, " of %", v.node, ", which has ", g[v.node].types.size()));
      types.push_back(g.type(v));
    }
    std::vector<TensorType> inferred;
    try {
      inferred = n.op->infer({*n.attrs, types, n.regions});
    } catch (const Error& e) {
      broken(cat("its shape rule refuses it: ", e.what()));
    }
    if (inferred != n.types) broken("its types are not what its shape rule says");
    int resource = resource_of(n);
    if (resource >= int(g.resources.size()) || (resource < 0 && (n.op->effect == Effect::read || n.op->effect == Effect::write)))
      broken("names a resource that the graph does not have");
    if (resource >= 0 && !(attrs_of<ResourceAttrs>(*n.attrs).type == g.resources[size_t(resource)].type))
      broken("its type is not its resource's");
  }
  auto check = [&](Value v, const char* list) {
    if (v.node < 0 || v.node >= g.size() || v.result < 0 || v.result >= int(g[v.node].types.size()))
      internal_error(cat("the graph's ", list, " name a value that it does not have"));
  };
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    check(g.inputs[i], "inputs");
    if (g[g.inputs[i]].op != &find_op("input")) internal_error(cat("the graph's input ", i, " is not an input node"));
    if (attrs_of<InputAttrs>(*g[g.inputs[i]].attrs).index != int64_t(i))
      internal_error(cat("the graph's input ", i, " has another number"));
  }
  for (Value v : g.outputs) check(v, "outputs");
}

}  // namespace lamina::ir
