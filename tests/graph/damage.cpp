#include "tests/graph/damage.h"

#include <algorithm>

namespace lamina::tests {
namespace {

ir::AttrsRef other_attributes(const ir::Node& node, Random& random) {
  ir::AttrText all = node.attrs->text();
  if (all.empty()) return node.attrs;
  std::string& text = all[below(random, all.size())].second;
  text = with_attribute_changed(text, random);
  return node.op->parse_attrs(node.op->name, all);
}

// Of a value before node `before`, most often one of the type of `like`.
ir::Value another(const ir::Graph& g, int before, ir::Value like, Random& random) {
  ir::Value picked;
  for (int tries = 0; tries < 20; ++tries) {
    const int n = int(below(random, size_t(before)));
    if (g[n].types.empty()) continue;
    picked = {n, int(below(random, g[n].types.size()))};
    if (!(picked == like) && (g.type(picked) == g.type(like) || chance(random, 8))) return picked;
  }
  return picked.valid() ? picked : like;
}

void change(const ir::Graph& g, int n, ir::Node& node, Random& random) {
  switch (below(random, 8)) {
    case 0:
    case 1:
    case 2:
      if (!node.inputs.empty()) {
        ir::Value& input = node.inputs[below(random, node.inputs.size())];
        input = another(g, n, input, random);
        return;
      }
      break;
    case 3:
      if (node.inputs.size() > 1) {
        std::swap(node.inputs[below(random, node.inputs.size())], node.inputs[below(random, node.inputs.size())]);
        return;
      }
      break;
    case 4: {
      const ir::OpDef& op = *ir::all_ops()[below(random, ir::all_ops().size())];
      if (op.inputs != int(node.inputs.size()) && !chance(random, 8)) break;
      ir::AttrText kept = node.attrs->text(), known = op.parse_attrs(op.name, {})->text();
      std::erase_if(kept, [&](const auto& one) {
        return std::none_of(known.begin(), known.end(), [&](const auto& other) { return other.first == one.first; });
      });
      node.attrs = op.parse_attrs(op.name, kept);
      node.op = &op;
      return;
    }
    case 5:
      if (node.op->inputs < 0 && !node.inputs.empty()) {
        const long at = long(below(random, node.inputs.size()));
        if (chance(random, 2))
          node.inputs.erase(node.inputs.begin() + at);
        else
          node.inputs.insert(node.inputs.begin() + at, node.inputs[below(random, node.inputs.size())]);
        return;
      }
      break;
    case 6:
      if (chance(random, 4)) {
        node.device = chance(random, 2) ? Device{} : Device{DeviceKind::gpu, 0};
        return;
      }
      break;
  }
  node.attrs = other_attributes(node, random);
}

// The graph with this node in place of its n-th, and these types of resources.
ir::Graph rebuilt(const ir::Graph& g, int n, const ir::Node& changed_node, std::vector<ir::Resource> resources) {
  ir::Graph out;
  const auto require = [&](const std::vector<ir::Value>& values) {
    for (const ir::Value v : values)
      if (v.node >= out.size() || size_t(v.result) >= out[v].types.size())
        throw Error(ErrorKind::invalid_argument,
                    {.what = "the changed graph uses a result that is no more", .where = "", .why = "", .fix = ""});
  };
  for (int i = 0; i < g.size(); ++i) {
    ir::Node node = i == n ? changed_node : g[i];
    require(node.inputs);
    if (const int r = ir::resource_of(node); r >= 0 && size_t(r) < resources.size()) {
      ir::AttrText all = node.attrs->text();
      for (auto& [key, text] : all)
        if (key == "type") text = lamina::text(resources[size_t(r)].type);
      node.attrs = node.op->parse_attrs(node.op->name, all);
    }
    out.copy(node, node.inputs);
  }
  out.resources = std::move(resources);
  out.inputs = g.inputs;
  out.outputs = g.outputs;
  require(out.inputs);
  require(out.outputs);
  for (const ir::Value v : out.inputs)
    if (out[v].op->name != std::string_view("input"))
      throw Error(ErrorKind::invalid_argument, {.what = "an input of the changed graph is none", .where = "", .why = "", .fix = ""});
  return out;
}

}  // namespace

ir::Graph with_one_change(const ir::Graph& g, Random& random) {
  if (!g.outputs.empty() && chance(random, 12)) {
    ir::Graph out = g;
    ir::Value& output = out.outputs[below(random, out.outputs.size())];
    output = another(g, g.size(), output, random);
    return out;
  }
  if (g.size() == 0) return g;
  std::vector<ir::Resource> resources = g.resources;
  if (!resources.empty() && chance(random, 12)) {
    TensorType& type = resources[below(random, resources.size())].type;
    type = parse_type(with_attribute_changed(text(type), random));
    return rebuilt(g, -1, {}, std::move(resources));
  }
  const int n = int(below(random, size_t(g.size())));
  ir::Node node = g[n];
  if (!node.regions.empty() && !chance(random, 3)) {
    ir::GraphRef& region = node.regions[below(random, node.regions.size())];
    region = std::make_shared<const ir::Graph>(with_one_change(*region, random));
  } else {
    change(g, n, node, random);
  }
  return rebuilt(g, n, node, std::move(resources));
}

}  // namespace lamina::tests
