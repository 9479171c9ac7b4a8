#include "graph/ir/graph.h"

#include <algorithm>
#include <cstring>

#include "graph/ir/rewriter.h"

namespace lamina::ir {
namespace {

// A length of 0 counts as 1: strides do not overflow either.
void require_possible(const OpDef& op, const std::vector<TensorType>& types) {
  for (const TensorType& type : types) {
    int64_t left = kMostBytes / int64_t(size_of(type.dtype));  // elements, for each of those that the axes before have
    for (const Dim d : type.shape)
      if (d.known() && d.number() > 0) left /= d.number();
    if (left == 0)
      throw Error(ErrorKind::invalid_argument, {.what = cat(op.name, ": the result ", type, " is too large"),
                                                .where = "",
                                                .why = "no machine has memory for more than 2^47 bytes",
                                                .fix = "use a smaller shape"});
  }
}

}  // namespace

Value Graph::add(const OpDef& op, AttrsRef attrs, std::vector<Value> in, std::vector<GraphRef> regions) {
  if (!attrs) {
    static const AttrsRef& none = *new AttrsRef(make_attrs(NoAttrs{}));
    attrs = op.parse_attrs == Attrs<NoAttrs>::parse ? none : op.parse_attrs(op.name, {});
  }
  return append({.op = &op,
                 .attrs = std::move(attrs),
                 .inputs = std::move(in),
                 .types = {},
                 .regions = std::move(regions),
                 .line = place.line,
                 .scope = place.scope,
                 .device = place.device});
}

Value Graph::copy(const Node& node, std::vector<Value> in) {
  return append({.op = node.op,
                 .attrs = node.attrs,
                 .inputs = std::move(in),
                 .types = {},
                 .regions = node.regions,
                 .line = node.line,
                 .scope = node.scope,
                 .device = node.device});
}

Value Graph::append(Node node) {
  if (node.op->inputs >= 0 && int(node.inputs.size()) != node.op->inputs)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(node.op->name, " was given ", node.inputs.size(), node.inputs.size() == 1 ? " input" : " inputs"),
                 .where = text(node.line),
                 .why = cat("it takes ", node.op->inputs),
                 .fix = ""});
  if (int(node.regions.size()) != node.op->regions)
    throw Error(ErrorKind::invalid_argument, {.what = cat(node.op->name, ": there are ", node.regions.size(), " regions"),
                                              .where = text(node.line),
                                              .why = cat("it has ", node.op->regions),
                                              .fix = ""});
  std::vector<TensorType> types;
  types.reserve(node.inputs.size());
  for (Value v : node.inputs) {
    if (!v.valid() || v.node >= size()) internal_error(cat(node.op->name, " was given a value that is not in its graph"));
    types.push_back(type(v));
  }
  try {
    node.types = node.op->infer({*node.attrs, types, node.regions});
    require_possible(*node.op, node.types);
  } catch (const Error& e) {
    throw node.line.known() ? e.at(text(node.line)) : e;
  }
  nodes_.push_back(std::make_shared<const Node>(std::move(node)));
  return {size() - 1, 0};
}

Value Graph::add_input(const TensorType& type, const std::string& name) {
  static const OpDef& op = find_op("input");
  if (inputs.size() == inputs.capacity())
    inputs.reserve(std::max<size_t>(8, 2 * inputs.size()));  // an input node must not remain without its entry
  Value v = add(op, make_attrs(InputAttrs{int64_t(inputs.size()), type, name}), {});
  inputs.push_back(v);
  return v;
}

Value Graph::add_constant(Literal value) {
  static const OpDef& op = find_op("constant");
  return add(op, make_attrs(ConstantAttrs{std::move(value)}), {});
}

int Graph::add_resource(Resource resource) {
  resources.push_back(std::move(resource));
  return int(resources.size()) - 1;
}

void Graph::truncate(int size) { nodes_.resize(size_t(size)); }

const Literal* constant_value(const Graph& g, Value v) {
  static const OpDef& op = find_op("constant");
  return g[v].op == &op ? &attrs_of<ConstantAttrs>(*g[v].attrs).value : nullptr;
}

int resource_of(const Node& node) {
  return node.op->effect == Effect::read || node.op->effect == Effect::write ? int(attrs_of<ResourceAttrs>(*node.attrs).resource) : -1;
}

bool has_effects(const Node& node) {
  if (node.op->effect != Effect::none) return true;
  return std::any_of(node.regions.begin(), node.regions.end(), [](const GraphRef& region) {
    return region && std::any_of(region->nodes().begin(), region->nodes().end(), has_effects);
  });
}

namespace {
bool contains(const Node& node, Effect effect) {
  if (node.op->effect == effect) return true;
  for (const GraphRef& region : node.regions)
    for (const Node& inner : region->nodes())
      if (contains(inner, effect)) return true;
  return false;
}
}  // namespace

bool has_host_effect(const Node& node) { return contains(node, Effect::host); }
bool has_collective(const Node& node) { return contains(node, Effect::ranks); }

Graph without_host_effects(const Graph& g) {
  if (std::none_of(g.nodes().begin(), g.nodes().end(), has_host_effect)) return g;
  Rewriter rewriter(g);
  for (int n = 0; n < g.size(); ++n) {
    if (g[n].op->effect == Effect::host) continue;
    Node node = g[n];
    for (GraphRef& region : node.regions)
      if (std::any_of(region->nodes().begin(), region->nodes().end(), has_host_effect))
        region = std::make_shared<const Graph>(without_host_effects(*region));
    rewriter.copy(n, node);
  }
  return rewriter.finish();
}

DimBindings bind_dims(const Graph& g, std::span<const TensorType> inputs) {
  DimBindings bindings;
  if (inputs.size() != g.inputs.size())
    throw Error(
        ErrorKind::signature,
        {.what = cat("the graph takes ", g.inputs.size(), " inputs and was given ", inputs.size()), .where = "", .why = "", .fix = ""});
  for (int round = 0; round < 2; ++round)  // twice, because expressions may use symbols that are bound later
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorType& want = g.type(g.inputs[i]);
      bool fits = want.dtype == inputs[i].dtype && want.rank() == inputs[i].rank();
      for (size_t d = 0; fits && d < want.rank(); ++d) {
        // A length that the caller does not know yet may be the graph's own: it was traced in terms of the caller's values.
        fits = match(want.shape[d], inputs[i].shape[d], bindings);
      }
      if (!fits) {
        const std::string& name = attrs_of<InputAttrs>(*g[g.inputs[i]].attrs).name;
        throw Error(ErrorKind::signature, {.what = cat("input ", i, name.empty() ? "" : cat(" ('", name, "')"), " is ", inputs[i],
                                                       ", the graph was traced for ", want),
                                           .where = "",
                                           .why = "a traced graph runs only what it was traced for",
                                           .fix = "pass a tensor of that dtype and shape, or call the function, which traces again"});
      }
    }
  return bindings;
}

Graph specialize(const Graph& g, const DimBindings& bindings) {
  Rewriter rewriter(g);
  for (int n = 0; n < g.size(); ++n) {
    Node node = g[n];
    node.attrs = node.attrs->with_dims(bindings);
    for (GraphRef& region : node.regions) region = std::make_shared<Graph>(specialize(*region, bindings));
    rewriter.copy(n, node);
  }
  return rewriter.finish();
}

}  // namespace lamina::ir
