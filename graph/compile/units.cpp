// The units that placement moves: chains of nodes, with their times, values and order.
#include <algorithm>
#include <map>
#include <numeric>

#include "graph/compile/emit.h"
#include "graph/compile/place.h"
#include "graph/compile/select.h"
#include "graph/ops/ops.h"
#include "graph/ops/regions.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina::compile {
namespace {

constexpr size_t kFew = 16;  // so few nodes are placed one by one: each schedule of them is quickly tried

double bytes_of(const TensorType& type) { return double(byte_size(type)); }

// Arithmetic and bytes of a node; of a loop, times its largest known number of iterations.
cost::Work work_of(const ir::Graph& g, const ir::Node& node, int number) {
  cost::Work out;
  compile::Work work;
  work.node = number;
  std::vector<TensorType> in;
  for (ir::Value v : node.inputs) in.push_back(g.type(v));
  for (const TensorType& t : in) out.bytes += bytes_of(t), work.inputs.push_back({.view = contiguous_view(nullptr, t)});
  for (const TensorType& t : node.types) out.bytes += bytes_of(t), work.outputs.push_back({.view = contiguous_view(nullptr, t)});
  if (ops::owns_programs(node)) {
    double turns = 1;
    if (node.op == &ops::def::scan)
      if (const Dim length = ir::attrs_of<ops::ScanAttrs>(*node.attrs).length[0]; length.known())
        turns = std::max<double>(1, double(length.number()));
    if (node.op == &ops::def::while_loop) turns = std::max<double>(1, double(ir::attrs_of<ops::LoopAttrs>(*node.attrs).maximum));
    for (const ir::GraphRef& region : node.regions)
      for (int i = 0; i < region->size(); ++i) {
        if (runs_nothing((*region)[i])) continue;
        bool known = true;
        for (const TensorType& t : (*region)[i].types) known = known && lamina::known(t.shape);
        for (ir::Value v : (*region)[i].inputs) known = known && lamina::known(region->type(v).shape);
        if (!known) continue;
        const cost::Work inner = work_of(*region, (*region)[i], i);
        out.flops += turns * inner.flops, out.bytes += turns * inner.bytes, out.steps += int(std::min(1e6, turns) * inner.steps);
      }
    return out;
  }
  ir::SectionStep step;
  const bool empty = std::any_of(in.begin(), in.end(), [](const TensorType& t) { return byte_size(t) == 0; }) ||
                     std::any_of(node.types.begin(), node.types.end(), [](const TensorType& t) { return byte_size(t) == 0; });
  if (!empty && node.op->section && node.op->section({*node.attrs, in, node.types, node.regions}, step))
    out.flops = step.flops;
  else if (!empty)
    out.flops = 2 * multiply_adds(work, g);
  return out;
}

class UnitMaker {
 public:
  UnitMaker(const ir::Graph& g, const Options& options, const cost::Costs& costs) : g_(g), options_(options), costs_(costs) {}

  Units run(bool merged) {
    list_devices();
    make_units();
    find_edges();
    if (merged && nodes_.size() > kFew) merge();
    return finish();
  }

 private:
  void list_devices() {
    out_.devices = options_.candidates;
    if (out_.devices.empty()) {
      const DeviceKind kind = options_.device.kind;
      if (kind == DeviceKind::null) out_.devices.push_back(options_.device);
      for (int i = 0; kind != DeviceKind::null && i < backend_of(kind).device_count(); ++i) out_.devices.push_back({kind, 0, int16_t(i)});
      if (kind == DeviceKind::gpu) out_.devices.push_back({});  // the CPU beside them
    }
    (void)number_of(options_.device);
  }
  int number_of(Device device) {
    const auto at = std::find(out_.devices.begin(), out_.devices.end(), device);
    if (at == out_.devices.end()) return out_.devices.push_back(device), int(out_.devices.size()) - 1;
    return int(at - out_.devices.begin());
  }
  Device variable_device(int resource) const {
    return size_t(resource) < options_.variable_devices.size() ? options_.variable_devices[size_t(resource)] : options_.device;
  }

  // --- nodes ---
  void make_units() {
    const size_t count = size_t(g_.size());
    unit_of_.assign(count, -1), location_.assign(count, -1);
    std::vector<char> assigned(g_.resources.size()), is_output(count);
    for (ir::Value v : g_.outputs) is_output[size_t(v.node)] = true;
    for (int i = 0; i < g_.size(); ++i) {
      const ir::Node& n = g_[i];
      const size_t s = size_t(i);
      const int resource = ir::resource_of(n);
      const bool chosen = n.device != kAutomatic;
      if (n.op == &ops::def::constant) continue;
      if (n.op == &ops::def::input) {
        const size_t index = size_t(ir::attrs_of<ir::InputAttrs>(*n.attrs).index);
        location_[s] = number_of(index < options_.input_devices.size() ? options_.input_devices[index] : options_.device);
      } else if (n.op->effect == ir::Effect::read && !assigned[size_t(resource)] && !is_output[s]) {
        location_[s] = number_of(variable_device(resource));
      } else if (resource >= 0) {
        if (n.op->effect == ir::Effect::write) assigned[size_t(resource)] = true;
        add_unit(i, number_of(variable_device(resource)));
      } else if (n.op->alias && n.inputs.size() == 1 && !chosen) {  // a view stays with what it shows
        const size_t shown = size_t(n.inputs[0].node);
        unit_of_[s] = unit_of_[shown], location_[s] = location_[shown];
        if (unit_of_[s] >= 0) nodes_[size_t(unit_of_[s])].push_back(i);
      } else if (!chosen && !on_host(n)) {
        add_unit(i, -1);
      } else {
        add_unit(i, number_of(chosen && n.device ? *n.device : options_.device));
      }
    }
  }
  void add_unit(int node, int device) {
    unit_of_[size_t(node)] = int(nodes_.size());
    nodes_.push_back({node});
    pin_.push_back(device);
  }

  // --- order ---
  void find_edges() {
    const size_t count = nodes_.size();
    in_.resize(count), out_of_.resize(count), work_.resize(count);
    std::vector<int> last_assign(g_.resources.size(), -1);
    std::vector<std::vector<int>> users(g_.resources.size());  // of a value read since the last assignment
    std::vector<int> assigns;                                  // since the last host effect
    std::vector<int> root(size_t(g_.size()), -1);              // per value read: its resource
    std::vector<int> read_after(size_t(g_.size()), -1);        // the assignment before that read
    int last_host = -1;
    for (int i = 0; i < g_.size(); ++i) {
      const ir::Node& n = g_[i];
      const int unit = unit_of_[size_t(i)], resource = ir::resource_of(n);
      if (n.op->effect == ir::Effect::read)
        root[size_t(i)] = resource, read_after[size_t(i)] = last_assign[size_t(resource)];
      else if (n.op->alias)
        root[size_t(i)] = root[size_t(n.inputs[0].node)], read_after[size_t(i)] = read_after[size_t(n.inputs[0].node)];
      if (unit < 0) continue;
      for (ir::Value v : n.inputs) {
        add_edge(unit_of_[size_t(v.node)], unit);
        if (const int r = root[size_t(v.node)]; r >= 0) {
          add_edge(read_after[size_t(v.node)], unit);
          if (read_after[size_t(v.node)] == last_assign[size_t(r)]) users[size_t(r)].push_back(unit);
        }
      }
      if (n.op->effect == ir::Effect::read) add_edge(last_assign[size_t(resource)], unit), users[size_t(resource)].push_back(unit);
      if (n.op->effect == ir::Effect::write) {
        for (int user : users[size_t(resource)]) add_edge(user, unit);
        users[size_t(resource)].clear();
        add_edge(last_assign[size_t(resource)], unit);
        add_edge(last_host, unit);
        last_assign[size_t(resource)] = unit;
        assigns.push_back(unit);
      }
      if (on_host(n)) {
        add_edge(last_host, unit);
        for (int assign : assigns) add_edge(assign, unit);
        assigns.clear();
        last_host = unit;
      }
      if (!runs_nothing(n) && resource < 0) work_[size_t(unit)].push_back(work_of(g_, n, i));
    }
  }
  void add_edge(int from, int to) {
    if (from < 0 || from == to) return;
    if (!in_[size_t(to)].empty() && in_[size_t(to)].back() == from) return;
    in_[size_t(to)].push_back(from), out_of_[size_t(from)].push_back(to);
  }

  // --- merging ---
  int find(int u) {
    while (into_[size_t(u)] != u) u = into_[size_t(u)] = into_[size_t(into_[size_t(u)])];
    return u;
  }
  // The only other unit in the list; -1: none, -2: several.
  int only(const std::vector<int>& list, int self) {
    int out = -1;
    for (int other : list) {
      const int u = find(other);
      if (u == self || u == out) continue;
      if (out >= 0) return -2;
      out = u;
    }
    return out;
  }
  double microseconds(int unit) const { return time_[size_t(unit)]; }
  bool fit(int a, int b) const { return pin_[size_t(a)] < 0 || pin_[size_t(b)] < 0 || pin_[size_t(a)] == pin_[size_t(b)]; }
  void merge() {
    into_.resize(nodes_.size()), time_.resize(nodes_.size());
    std::iota(into_.begin(), into_.end(), 0);
    const Device first = out_.devices[0];
    double hop = 0;
    for (Device other : out_.devices)
      hop = std::max(hop, other == first ? 0 : costs_.link(first, other).latency + costs_.copy(first, other, 0));
    for (size_t u = 0; u < nodes_.size(); ++u)
      for (const cost::Work& w : work_[u]) time_[u] += costs_.microseconds(w, first, 1);
    for (bool changed = true; changed;) {
      changed = false;
      for (int u = 0; u < int(nodes_.size()); ++u) {
        if (find(u) != u) continue;
        // Merging with the only neighbour on one side makes no circle. A chain, or work smaller than the way to another device.
        const int next = only(out_of_[size_t(u)], u);
        const bool small = microseconds(u) < hop;
        if (next >= 0 && fit(u, next) && (small || only(in_[size_t(next)], next) == u)) {
          join(u, next, true), changed = true;
          continue;
        }
        const int before = only(in_[size_t(u)], u);
        if (before >= 0 && fit(u, before) && (small || only(out_of_[size_t(before)], before) == u)) join(u, before, false), changed = true;
      }
    }
  }
  // Unit u becomes a part of `host`, which is its only successor or its only predecessor.
  void join(int u, int host, bool successor) {
    into_[size_t(u)] = host;
    time_[size_t(host)] += time_[size_t(u)];
    pin_[size_t(host)] = std::max(pin_[size_t(host)], pin_[size_t(u)]);
    auto& list = successor ? in_[size_t(host)] : out_of_[size_t(host)];
    const auto& added = successor ? in_[size_t(u)] : out_of_[size_t(u)];
    list.insert(list.end(), added.begin(), added.end());
    std::vector<int> kept;
    for (int other : list)
      if (find(other) != host) kept.push_back(find(other));
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    list = std::move(kept);
  }

  // --- the result ---
  Units finish() {
    if (into_.empty()) into_.resize(nodes_.size()), std::iota(into_.begin(), into_.end(), 0);
    double flops = 0;
    for (const auto& list : work_)
      for (const cost::Work& w : list) flops += w.flops;
    for (Device d : out_.devices)
      out_.threads.push_back(d.kind == DeviceKind::cpu && flops >= kFlopsWorthThreads ? backend_of(d).properties(d).threads : 1);
    const std::vector<int> number = in_order();
    const size_t count = out_.units.size(), devices = out_.devices.size();
    for (size_t u = 0; u < count; ++u) out_.units[u].time.assign(devices, 0), out_.units[u].one_thread.assign(devices, 0);
    for (size_t part = 0; part < nodes_.size(); ++part) {
      Units::Unit& unit = out_.units[size_t(number[size_t(find(int(part)))])];
      unit.nodes.insert(unit.nodes.end(), nodes_[part].begin(), nodes_[part].end());
      unit.device = pin_[size_t(find(int(part)))];
      for (int node : nodes_[part])
        for (size_t d = 0; d < devices; ++d)
          if (const ir::OpDef* op = g_[node].op; out_.devices[d].kind == DeviceKind::gpu && !runs_nothing(g_[node]) &&
                                                 ir::resource_of(g_[node]) < 0 && !op->cuda && !op->section && !op->decompose)
            unit.time[d] = unit.one_thread[d] = kNever;
      for (const cost::Work& w : work_[part]) {
        unit.makes = std::max(unit.makes, w.bytes);
        for (size_t d = 0; d < devices; ++d) {
          unit.time[d] += costs_.microseconds(w, out_.devices[d], out_.threads[d]);
          unit.one_thread[d] += costs_.microseconds(w, out_.devices[d], 1);
        }
      }
    }
    for (size_t u = 0; u < count; ++u) {
      Units::Unit& unit = out_.units[u];
      std::sort(unit.nodes.begin(), unit.nodes.end());
      for (size_t d = 0; d < devices; ++d)
        unit.time[d] += costs_.launch(out_.devices[d]), unit.one_thread[d] += costs_.launch(out_.devices[d]);
    }
    list_values(number);
    out_.location = location_;
    return std::move(out_);
  }
  // Makes the units, in an order in which each comes after those before it; returns their numbers.
  std::vector<int> in_order() {
    std::vector<int> number(nodes_.size(), -1), missing(nodes_.size());
    std::vector<std::vector<int>> before(nodes_.size()), after(nodes_.size());
    for (size_t u = 0; u < nodes_.size(); ++u)
      if (find(int(u)) == int(u))
        for (int other : in_[u])
          if (const int p = find(other); p != int(u)) before[u].push_back(p);
    std::vector<int> ready;  // by number: the earliest in the program first
    for (size_t u = 0; u < nodes_.size(); ++u) {
      std::sort(before[u].begin(), before[u].end());
      before[u].erase(std::unique(before[u].begin(), before[u].end()), before[u].end());
      missing[u] = int(before[u].size());
      for (int p : before[u]) after[size_t(p)].push_back(int(u));
      if (find(int(u)) == int(u) && missing[u] == 0) ready.push_back(int(u));
    }
    std::make_heap(ready.begin(), ready.end(), std::greater<>());
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), std::greater<>());
      const int u = ready.back();
      ready.pop_back();
      number[size_t(u)] = int(out_.units.size());
      Units::Unit& unit = out_.units.emplace_back();
      for (int p : before[size_t(u)]) unit.after.push_back(number[size_t(p)]);
      for (int next : after[size_t(u)])
        if (--missing[size_t(next)] == 0) ready.push_back(next), std::push_heap(ready.begin(), ready.end(), std::greater<>());
    }
    for (size_t u = 0; u < nodes_.size(); ++u)
      if (find(int(u)) == int(u) && number[u] < 0)
        internal_error(cat("placement: the unit of node ", nodes_[u][0], " (", g_[nodes_[u][0]].op->name, ") waits for itself"));
    return number;
  }
  void list_values(const std::vector<int>& number) {
    std::map<ir::Value, int> known;
    const auto value_of = [&](ir::Value v) {
      const auto [at, is_new] = known.try_emplace(v, int(out_.values.size()));
      if (is_new) {
        const int unit = unit_of_[size_t(v.node)];
        out_.values.push_back({.from = unit < 0 ? -1 : number[size_t(find(unit))],
                               .location = location_[size_t(v.node)],
                               .bytes = bytes_of(g_.type(v)),
                               .value = v});
      }
      return at->second;
    };
    for (size_t u = 0; u < out_.units.size(); ++u) {
      Units::Unit& unit = out_.units[u];
      for (int node : unit.nodes)
        for (ir::Value v : g_[node].inputs) {
          const Units::Value& value = out_.values[size_t(value_of(v))];
          if (value.from != int(u) && !(value.from < 0 && value.location < 0)) unit.needs.push_back(value_of(v));
        }
      std::sort(unit.needs.begin(), unit.needs.end());
      unit.needs.erase(std::unique(unit.needs.begin(), unit.needs.end()), unit.needs.end());
    }
    // Results of a function are where its other tensors are.
    Units::Unit outputs;
    outputs.device = number_of(options_.device);
    outputs.time.assign(out_.devices.size(), 0), outputs.one_thread.assign(out_.devices.size(), 0);
    for (ir::Value v : g_.outputs)
      if (unit_of_[size_t(v.node)] >= 0 && g_[v].device == kAutomatic) {
        const int value = value_of(v);
        outputs.needs.push_back(value);
        outputs.after.push_back(out_.values[size_t(value)].from);
      }
    for (auto* list : {&outputs.needs, &outputs.after}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    if (!outputs.needs.empty()) out_.units.push_back(std::move(outputs));
  }

  const ir::Graph& g_;
  const Options& options_;
  const cost::Costs& costs_;
  Units out_;
  std::vector<int> unit_of_, location_;  // per node
  std::vector<std::vector<int>> nodes_;  // per unit, before merging
  std::vector<int> pin_, into_;          // per unit
  std::vector<std::vector<int>> in_, out_of_;
  std::vector<std::vector<cost::Work>> work_;
  std::vector<double> time_;
};

}  // namespace

Units units_of(const ir::Graph& g, const Options& options, const cost::Costs& costs, bool merged) {
  return UnitMaker(g, options, costs).run(merged);
}

}  // namespace lamina::compile
