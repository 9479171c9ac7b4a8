#include <algorithm>

#include "graph/passes/loops.h"
#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// Which inputs each of a region's outputs needs, as a list of flags per output.
std::vector<char> needed_inputs(const Graph& region, const std::vector<char>& live_outputs) {
  std::vector<char> needed(size_t(region.size()));
  for (size_t i = 0; i < region.outputs.size(); ++i)
    if (live_outputs[i]) needed[size_t(region.outputs[i].node)] = true;
  for (int n = region.size() - 1; n >= 0; --n)
    if (needed[size_t(n)] || has_effects(region[n]))
      for (Value v : region[n].inputs) needed[size_t(v.node)] = true;
  std::vector<char> out;
  for (Value v : region.inputs) out.push_back(needed[size_t(v.node)]);
  return out;
}

class Dropping {
 public:
  Dropping(const Graph& g, const Uses& uses, int node, Rewriter& to) : g_(g), uses_(uses), node_(node), to_(to), old_(g, node), is_loop_(old_.op != &ops::def::cond) {}

  void run() {
    find_live();
    Loop now = old_;
    now.carried.clear(), now.stacked.clear(), now.captures.clear();
    std::vector<size_t> kept;  // of the regions' inputs
    std::vector<int> result_of(old_.body().outputs.size(), -1);
    const size_t carried = old_.carried.size(), stacked = old_.stacked.size();
    for (size_t i = 0; i < carried; ++i)
      if (live_outputs_[i] && !invariant_[i]) now.carried.push_back(old_.carried[i]), kept.push_back(i);
    for (size_t i = 0; i < stacked; ++i)
      if (live_inputs_[carried + i]) now.stacked.push_back(old_.stacked[i]), kept.push_back(carried + i);
    for (size_t i = 0; i < old_.captures.size(); ++i)
      if (live_inputs_[carried + stacked + i]) now.captures.push_back(old_.captures[i]), kept.push_back(carried + stacked + i);
    for (size_t i = 0; i < carried; ++i)
      if (invariant_[i] && live_inputs_[i]) now.captures.push_back(old_.carried[i]), kept.push_back(i);
    int results = 0;
    for (size_t r = 0; r < old_.regions.size(); ++r) {
      const bool condition = is_loop_ && r + 1 < old_.regions.size();
      std::vector<Value> outputs;
      for (size_t i = 0; i < old_.regions[r].outputs.size(); ++i)
        if (condition || (live_outputs_[i] && !(i < carried && invariant_[i]))) {
          outputs.push_back(old_.regions[r].outputs[i]);
          if (r + 1 == old_.regions.size()) result_of[i] = results++;
        }
      now.regions[r] = select_region(old_.regions[r], kept, outputs);
    }
    to_.stand_at(node_);
    const Value first = now.add(to_);
    for (size_t i = 0; i < result_of.size(); ++i) {
      if (i < carried && invariant_[i]) to_.map({node_, int(i)}, to_[old_.carried[i]]);
      else if (result_of[i] >= 0) to_.map({node_, int(i)}, {first.node, result_of[i]});
    }
    if (old_.op == &ops::def::while_loop) to_.map({node_, int(carried)}, {first.node, int(now.carried.size())});
  }

 private:
  // A result is live when somebody uses it, a carried value also when a live one is computed from it.
  void find_live() {
    const Graph& body = old_.body();
    const size_t carried = old_.carried.size();
    invariant_.resize(carried);
    for (size_t i = 0; i < carried; ++i) invariant_[i] = body.outputs[i] == body.inputs[i];
    live_outputs_.resize(body.outputs.size());
    for (size_t i = 0; i < body.outputs.size(); ++i) live_outputs_[i] = uses_.of({node_, int(i)}) > 0;
    live_inputs_.assign(body.inputs.size(), false);
    for (bool again = true; again;) {
      again = false;
      for (size_t r = 0; r < old_.regions.size(); ++r) {
        const bool condition = is_loop_ && r + 1 < old_.regions.size();
        const std::vector<char> needed = needed_inputs(old_.regions[r], condition ? std::vector<char>(1, true) : live_outputs_);
        for (size_t i = 0; i < needed.size(); ++i) live_inputs_[i] = live_inputs_[i] || needed[i];
      }
      for (size_t i = 0; i < carried; ++i)
        if (live_inputs_[i] && !live_outputs_[i]) live_outputs_[i] = again = true;
    }
    // What is only carried, and never looked at, needs no input of its own; but its result is its first value.
    for (size_t i = 0; i < carried; ++i)
      if (invariant_[i]) live_inputs_[i] = used_elsewhere(i);
  }
  bool used_elsewhere(size_t input) const {
    for (size_t r = 0; r < old_.regions.size(); ++r) {
      std::vector<char> outputs(old_.regions[r].outputs.size(), true);
      const bool condition = r + 1 < old_.regions.size();
      if (!condition)
        for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = live_outputs_[i] && i != input;
      if (needed_inputs(old_.regions[r], outputs)[input]) return true;
    }
    return false;
  }

  const Graph& g_;
  const Uses& uses_;
  const int node_;
  Rewriter& to_;
  const Loop old_;
  const bool is_loop_;
  std::vector<char> live_outputs_, live_inputs_, invariant_;
};

Graph drop_here(const Graph& g) {
  const Uses uses(g);
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (!uses.live(i)) continue;  // it may use what is dropped
    if (Loop::is_one(g[i])) Dropping(g, uses, i, rewriter).run();
    else rewriter.copy(i);
  }
  return rewriter.finish();
}

bool has_nested_loops(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) {
    return Loop::is_one(node) && std::any_of(node.regions.begin(), node.regions.end(), [](const ir::GraphRef& region) {
             return std::any_of(region->nodes().begin(), region->nodes().end(), Loop::is_one);
           });
  });
}

}  // namespace

// What an outer loop drops may have been all that used an inner loop's value, and the other way round.
Graph drop_unused_loop_values(const Graph& g) {
  Graph now = drop_here(g);
  while (has_nested_loops(now)) {
    Graph next = drop_here(with_changed_regions(now, drop_unused_loop_values));
    if (ir::equal(now, next)) break;
    now = std::move(next);
  }
  return now;
}

}  // namespace lamina::passes
