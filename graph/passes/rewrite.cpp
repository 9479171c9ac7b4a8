#include "graph/passes/rewrite.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"

namespace lamina::passes {
Uses::Uses(const Graph& g) : first_value_(ir::number_values(g)) {
  counts_.resize(size_t(first_value_.back()));
  live_.resize(size_t(g.size()));
  for (Value v : g.inputs) live_[size_t(v.node)] = true;
  for (Value v : g.outputs) {
    live_[size_t(v.node)] = true;
    ++counts_[size_t(first_value_[size_t(v.node)] + v.result)];
  }
  for (int i = g.size() - 1; i >= 0; --i) {
    const Node& node = g[i];
    if (!live_[size_t(i)]) {
      if (!has_effects(node)) continue;
      live_[size_t(i)] = true;
    }
    for (Value in : node.inputs) {
      live_[size_t(in.node)] = true;
      ++counts_[size_t(first_value_[size_t(in.node)] + in.result)];
    }
  }
}

bool is_pure(const Node& node) { return !is(node, ops::def::input) && !has_effects(node); }

bool is_elementwise(const Node& node) { return node.op->scalar_op >= 0; }

const ir::Literal* uniform_constant(const Graph& g, Value v) {
  while (is(g[v], ops::def::broadcast_to) || is(g[v], ops::def::reshape)) v = g[v].inputs[0];
  const ir::Literal* value = ir::constant_value(g, v);
  if (!value || !known(value->type.shape) || size_of(value->type.shape).number() == 0) return nullptr;
  const bool one = value->type.shape.empty() && value->type.dtype != DType::i64;  // first() is a double, which cannot hold every i64
  return one || value->is_filled_with(value->first()) ? value : nullptr;
}

std::optional<ops::ActivationAttrs> activation_of(const Graph& g, const Node& node, bool gradient) {
  for (const section::ActivationRow& row : section::kActivations) {
    if (node.op->scalar_op != int(gradient ? row.gradient : row.op)) continue;
    if (row.parameter == section::Parameter::plain) return ops::ActivationAttrs{row.activation};
    const ir::Literal* alpha = uniform_constant(g, node.inputs.back());
    if (!alpha) return {};
    const bool loses_sign = row.slope == section::Slope::of_result && alpha->first() < 0;
    if (!gradient && (loses_sign || !(g.type(node.inputs[0]) == node.types[0]))) return {};
    return ops::ActivationAttrs{row.activation, float(alpha->first())};
  }
  return {};
}

bool broadcasts_to(std::span<const Shape> inputs, const Shape& shape) {
  try {
    Shape all;
    for (const Shape& s : inputs) all = broadcast(all, s);
    return all == shape;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::vector<int>> effect_order(const Graph& g) {
  std::vector<std::vector<int>> before(size_t(g.size()));
  std::vector<int> last_write(g.resources.size(), -1);
  std::vector<std::vector<int>> reads_since(g.resources.size());
  int last_host = -1, last_collective = -1, last_fence = -1;
  std::vector<int> since_fence, writes_since_host;
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    if (node.op->effect == ir::Effect::none && node.regions.empty()) continue;
    if (!has_effects(node)) continue;
    std::vector<int>& mine = before[size_t(i)];
    if (last_fence >= 0) mine.push_back(last_fence);
    const int resource = ir::resource_of(node);
    if (node.op->effect == ir::Effect::ranks) {
      if (last_collective >= 0) mine.push_back(last_collective);
      last_collective = i;
      since_fence.push_back(i);
      continue;
    }
    if (node.op->effect == ir::Effect::none || (node.op->effect != ir::Effect::host && resource < 0)) {
      mine.insert(mine.end(), since_fence.begin(), since_fence.end());
      since_fence.clear();
      last_fence = i;
      continue;
    }
    if (node.op->effect == ir::Effect::host) {
      // It may stop the program: earlier assignments must have happened, and later ones not.
      if (last_host >= 0) mine.push_back(last_host);
      mine.insert(mine.end(), writes_since_host.begin(), writes_since_host.end());
      writes_since_host.clear();
      last_host = i;
    } else {
      auto& reads = reads_since[size_t(resource)];
      int& write = last_write[size_t(resource)];
      if (write >= 0) mine.push_back(write);
      if (node.op->effect == ir::Effect::write) {
        mine.insert(mine.end(), reads.begin(), reads.end());
        reads.clear();
        write = i;
        if (last_host >= 0) mine.push_back(last_host);
        writes_since_host.push_back(i);
      } else {
        reads.push_back(i);
      }
    }
    since_fence.push_back(i);
  }
  return before;
}

std::vector<std::vector<int>> order_units(const Graph& g, const std::vector<int>& unit_of) {
  const int numbers = unit_of.empty() ? 0 : 1 + *std::max_element(unit_of.begin(), unit_of.end());
  std::vector<std::vector<int>> members(static_cast<size_t>(numbers)), after(static_cast<size_t>(numbers));
  std::vector<int> waiting(static_cast<size_t>(numbers));
  const auto effects = effect_order(g);
  for (int i = 0; i < g.size(); ++i) {
    const int unit = unit_of[size_t(i)];
    if (unit < 0) continue;
    members[size_t(unit)].push_back(i);
    auto wait_for = [&](int node) {
      const int other = unit_of[size_t(node)];
      if (other < 0 || other == unit) return;
      after[size_t(other)].push_back(unit);
      ++waiting[size_t(unit)];
    };
    for (Value in : g[i].inputs) wait_for(in.node);
    for (int earlier : effects[size_t(i)]) wait_for(earlier);
  }
  // A unit takes the position of its last node, unless something needs it earlier.
  using Entry = std::pair<int, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  size_t count = 0;
  for (int unit = 0; unit < numbers; ++unit) {
    if (members[size_t(unit)].empty()) continue;
    ++count;
    if (waiting[size_t(unit)] == 0) ready.emplace(members[size_t(unit)].back(), unit);
  }
  std::vector<std::vector<int>> order;
  order.reserve(count);
  while (!ready.empty()) {
    const int unit = ready.top().second;
    ready.pop();
    for (int next : after[size_t(unit)])
      if (--waiting[size_t(next)] == 0) ready.emplace(members[size_t(next)].back(), next);
    order.push_back(std::move(members[size_t(unit)]));
  }
  if (order.size() != count) internal_error("a pass has grouped nodes that need each other");
  return order;
}

}  // namespace lamina::passes
