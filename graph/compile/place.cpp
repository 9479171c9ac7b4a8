#include "graph/compile/place.h"

#include <algorithm>
#include <map>

#include "graph/compile/select.h"
#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"

namespace lamina::compile {
namespace {

bool is_automatic(const ir::Node& node) { return node.device == kAutomatic; }

// The graph with its nodes in the schedule's order. What a unit needs from elsewhere is copied before the unit, in one place, so that no
// copy lies within a section.
ir::Graph placed_graph(const ir::Graph& g, const Units& units, const Schedule& schedule, Device first) {
  ir::Rewriter to(g);
  std::vector<int> device_of(size_t(g.size()), -1);
  for (size_t u = 0; u < units.units.size(); ++u)
    for (int node : units.units[u].nodes) device_of[size_t(node)] = schedule.device[u];
  std::map<std::pair<ir::Value, int>, ir::Value> copies;  // and constants made again
  const auto stand = [&](const ir::Node& node, Device device) { to.to.place = {node.line, node.scope, device}; };
  // A value that is there from the beginning stands before its first user; a constant on each device that needs it.
  const auto bring = [&](auto&& self, ir::Value v) -> void {
    if (to.mapped(v)) return;
    for (ir::Value in : g[v].inputs) self(self, in);
    ir::Node node = g[v];
    if (is_automatic(node)) {
      const int location = units.location[size_t(v.node)];
      node.device = location < 0 ? first : units.devices[size_t(location)];
    }
    to.copy(v.node, node);
  };
  std::vector<std::vector<int>> reads(g.resources.size());
  for (int i = 0; i < g.size(); ++i) {
    if (g[i].op == &ops::def::input) bring(bring, {i, 0});
    if (g[i].op->effect == ir::Effect::read) reads[size_t(ir::resource_of(g[i]))].push_back(i);
  }
  const auto on = [&](ir::Value v, int device) -> ir::Value {
    const int from = device_of[size_t(v.node)];
    const bool constant = g[v].op == &ops::def::constant;
    if (from == device) return to[v];
    if (from < 0 && !constant) {
      bring(bring, v);
      const int location = units.location[size_t(v.node)];
      if (location < 0 || location == device) return to[v];
    }
    auto [at, is_new] = copies.try_emplace({v, device});
    if (is_new) {
      stand(g[v], units.devices[size_t(device)]);
      if (constant)
        at->second = to.to.add_constant(*ir::constant_value(g, v));
      else
        at->second = to.to.add(ops::def::to_device, {to[v]});
    }
    return at->second;
  };
  for (int u : schedule.order) {
    const Units::Unit& unit = units.units[size_t(u)];
    const int device = schedule.device[size_t(u)];
    for (int v : unit.needs)  // all copies first
      if (!unit.nodes.empty()) (void)on(units.values[size_t(v)].value, device);
    for (int n : unit.nodes) {
      ir::Node node = g[n];
      if (node.op->effect == ir::Effect::write)  // the old value, which later nodes may need, is read before
        for (int read : reads[size_t(ir::resource_of(node))])
          if (read < n && device_of[size_t(read)] < 0) bring(bring, {read, 0});
      std::vector<ir::Value> in;
      for (ir::Value v : node.inputs) in.push_back(on(v, device));
      if (is_automatic(node)) node.device = on_host(node) ? std::nullopt : std::optional(units.devices[size_t(device)]);
      const ir::Value made = to.to.copy(node, std::move(in));
      to.map_results(n, made);
    }
  }
  for (ir::Value v : g.outputs) {
    if (device_of[size_t(v.node)] >= 0) continue;
    bring(bring, v);
  }
  ir::Graph out = to.finish();
  for (size_t o = 0; o < g.outputs.size(); ++o) {  // auto's results are where the function's other tensors are
    const ir::Value v = g.outputs[o];
    const int from = device_of[size_t(v.node)];
    if (from < 0 || !is_automatic(g[v]) || units.devices[size_t(from)] == first) continue;
    out.place = {g[v].line, g[v].scope, first};
    out.outputs[o] = out.add(ops::def::to_device, {out.outputs[o]});
  }
  out.place = {};
  return out;
}

}  // namespace

ir::Graph on_one_device(const ir::Graph& g, Device device) {
  ir::Rewriter to(g);
  for (int i = 0; i < g.size(); ++i) {
    ir::Node node = g[i];
    if (is_automatic(node)) node.device = on_host(node) ? std::nullopt : std::optional(device);
    to.copy(i, node);
  }
  return to.finish();
}

std::optional<Placed> place(const ir::Graph& g, const Options& options) {
  if (std::none_of(g.nodes().begin(), g.nodes().end(), is_automatic)) return {};
  if (options.inside || options.writer) return Placed{on_one_device(g, options.device), false, {}};  // a body stays with its loop
  const cost::Costs& costs = options.costs ? *options.costs : cost::Costs::here();
  const Units units = units_of(g, options, costs);
  Placed out;
  if (units.devices.size() == 1 || units.units.empty()) {
    out.graph = on_one_device(g, options.device);
    out.candidates.push_back({cat(options.device, " alone"), -1, "taken: there is no other device to choose"});
    return out;
  }
  const Schedule schedule = best_schedule(units, costs, double(options.device_memory), out.candidates);
  for (size_t u = 0; u < units.units.size(); ++u) {
    if (units.units[u].nodes.empty()) continue;
    const int d = schedule.device[u];
    out.elsewhere = out.elsewhere || units.devices[size_t(d)] != options.device;
  }
  if (!out.elsewhere) {  // in the graph's own order: the schedule's would cut its sections
    out.graph = on_one_device(g, options.device);
    return out;
  }
  out.graph = placed_graph(g, units, schedule, options.device);
  return out;
}

}  // namespace lamina::compile
