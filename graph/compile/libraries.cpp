#include "graph/compile/libraries.h"

#include <algorithm>

#include "graph/ops/batch_norm.h"
#include "graph/ops/ops.h"
#include "runtime/device/backend.h"

namespace lamina::compile {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

bool is_pooling(const Node& node) { return node.op == &ops::def::max_pool2d; }
bool is_gradient(const Node& node) { return node.op == &ops::def::max_pool2d_grad; }
const ops::MaxPool2dAttrs& attrs_of(const Node& node) { return ir::attrs_of<ops::MaxPool2dAttrs>(*node.attrs); }

bool same_windows(const Node& a, const Node& b) {
  const ops::MaxPool2dAttrs &x = attrs_of(a), &y = attrs_of(b);
  return x.window == y.window && x.strides == y.strides && x.padding == y.padding && x.pads == y.pads;
}

// Per node: whether it is a max_pool2d that becomes one without places.
std::vector<char> chosen(const Graph& g, const Options& options) {
  const auto device_of = [&](const Node& node) { return node.device.value_or(options.device); };
  std::vector<char> out(size_t(g.size()));
  for (int n = 0; n < g.size(); ++n) {
    const Device device = device_of(g[n]);
    if (!is_pooling(g[n]) || device.kind == DeviceKind::cpu) continue;
    const std::optional<double> operations = ops::library_operations(g.type(g[n].inputs[0]), attrs_of(g[n]));
    out[size_t(n)] = operations && backend_of(device).image_library_serves(*operations);
  }
  const auto keep_places = [&](Value v) {
    if (v.result == 1 && is_pooling(g[v])) out[size_t(v.node)] = false;
  };
  for (int n = 0; n < g.size(); ++n)
    for (size_t i = 0; i < g[n].inputs.size(); ++i) {
      const Value v = g[n].inputs[i];
      const bool its_gradient =
          is_gradient(g[n]) && i == 1 && is_pooling(g[v]) && same_windows(g[n], g[v]) && g[n].types[0] == g.type(g[v].inputs[0]);
      if (!its_gradient || device_of(g[n]) != device_of(g[v])) keep_places(v);
    }
  for (Value v : g.outputs) keep_places(v);
  return out;
}

bool is_norm(const Node& node) { return node.op == &ops::def::batch_norm_train || node.op == &ops::def::batch_norm_train_grad; }

Graph marked(const Graph& g, Device around, bool& any) {
  Graph to;
  to.resources = g.resources;
  std::vector<int> now;  // per node
  const auto moved = [&](Value v) { return Value{now[size_t(v.node)], v.result}; };
  for (const Node& node : g.nodes()) {
    const Device device = node.device.value_or(around);
    std::vector<Value> in;
    for (Value v : node.inputs) in.push_back(moved(v));
    std::vector<ir::GraphRef> regions;
    bool changed = false;
    for (const ir::GraphRef& region : node.regions)
      regions.push_back(asks_for_libraries(*region) ? std::make_shared<const Graph>(marked(*region, device, changed)) : region);
    ir::AttrsRef attrs = node.attrs;
    if (is_norm(node) && device.kind != DeviceKind::cpu) {
      const std::optional<double> operations = ops::batch_norm_operations(g.type(node.inputs[0]));
      if (operations && backend_of(device).image_library_serves(*operations)) {
        ops::BatchNormAttrs kept = ir::attrs_of<ops::BatchNormAttrs>(*attrs);
        kept.library = changed = true;
        attrs = ir::make_attrs(kept);
      }
    }
    any = any || changed;
    to.place = {node.line, node.scope, node.device};
    now.push_back((changed ? to.add(*node.op, std::move(attrs), std::move(in), std::move(regions)) : to.copy(node, std::move(in))).node);
  }
  to.place = g.place;
  for (Value v : g.inputs) to.inputs.push_back(moved(v));
  for (Value v : g.outputs) to.outputs.push_back(moved(v));
  return to;
}

}  // namespace

std::optional<Graph> use_libraries(const Graph& g, const Options& options) {
  const std::vector<char> without_places = chosen(g, options);
  if (std::find(without_places.begin(), without_places.end(), true) == without_places.end()) return {};
  Graph to;
  to.resources = g.resources;
  std::vector<int> now;  // per node
  const auto moved = [&](Value v) { return Value{now[size_t(v.node)], v.result}; };
  for (const Node& node : g.nodes()) {
    std::vector<Value> in;
    for (Value v : node.inputs) in.push_back(moved(v));
    to.place = {node.line, node.scope, node.device};
    const bool pooling = is_pooling(node) && without_places[now.size()],
               gradient = is_gradient(node) && without_places[size_t(node.inputs[1].node)];
    Value made;
    if (pooling)
      made = ops::max_pool2d_values(to, in[0], attrs_of(node));
    else if (gradient)
      made = ops::max_pool2d_values_grad(to, moved(g[node.inputs[1]].inputs[0]), {in[1].node, 0}, in[0], attrs_of(node));
    else
      made = to.copy(node, std::move(in));
    now.push_back(made.node);
  }
  to.place = g.place;
  for (Value v : g.inputs) to.inputs.push_back(moved(v));
  for (Value v : g.outputs) to.outputs.push_back(moved(v));
  return to;
}

bool asks_for_libraries(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) {
    return is_norm(node) ||
           std::any_of(node.regions.begin(), node.regions.end(), [](const ir::GraphRef& region) { return asks_for_libraries(*region); });
  });
}

std::optional<Graph> mark_for_libraries(const Graph& g, const Options& options) {
  bool any = false;
  Graph to = marked(g, options.device, any);
  return any ? std::optional(std::move(to)) : std::nullopt;
}

bool is_for_library(const Node& node) {
  return node.op == &ops::def::max_pool2d_values || node.op == &ops::def::max_pool2d_values_grad ||
         (is_norm(node) && ir::attrs_of<ops::BatchNormAttrs>(*node.attrs).library);
}

}  // namespace lamina::compile
