#include <algorithm>
#include <map>

#include "graph/passes/loops.h"
#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// The needed parts of a loop or branch: its body's outputs (results, or carried values that a needed one depends on), its regions' inputs,
// and which carried values never change.
struct Live {
  std::vector<char> outputs, inputs, invariant;
  // Whether the body still returns this result; a carried value that never changes is replaced by its initial value.
  bool gives(size_t result) const { return outputs[result] && !(result < invariant.size() && invariant[result]); }
};

// Computes what is needed, level by level of nested loops and branches. Answers about inner nodes are cached for one sweep; otherwise each
// level would walk all levels inside it again.
class Needs {
 public:
  Live find_live(const Loop& loop, std::vector<char> results);

 private:
  std::vector<char> needed_operands(const Graph& g, int n, const std::vector<char>& results);
  std::vector<char> needed_inputs(const Graph& region, const std::vector<char>& live_outputs);
  bool used_elsewhere(const Loop& loop, const Live& live, size_t input);

  // The cache key: a node with its attributes, regions and needed results.
  struct Question {
    ir::AttrsRef attrs;
    std::vector<ir::GraphRef> regions;
    std::vector<char> results;
    auto operator<=>(const Question&) const = default;
  };
  std::map<Question, std::vector<char>> known_;
};

// The inputs of the node that these results need.
std::vector<char> Needs::needed_operands(const Graph& g, int n, const std::vector<char>& results) {
  auto [known, is_new] = known_.try_emplace({g[n].attrs, g[n].regions, results});
  if (!is_new) return known->second;
  const Loop loop(g, n);
  const Live live = find_live(loop, {results.begin(), results.begin() + int64_t(loop.body().outputs.size())});
  std::vector<char> out;
  if (loop.pred.valid()) out.push_back(true);
  for (size_t i = 0; i < loop.inputs(); ++i) out.push_back(live.inputs[i] || (i < loop.carried.size() && live.outputs[i]));
  if (loop.count.valid()) out.push_back(true);
  return known->second = std::move(out);
}

// The inputs that a region's live outputs need.
std::vector<char> Needs::needed_inputs(const Graph& region, const std::vector<char>& live_outputs) {
  std::vector<std::vector<char>> needed;
  for (const Node& node : region.nodes()) needed.emplace_back(std::max<size_t>(1, node.types.size()));
  auto need = [&](Value v) { needed[size_t(v.node)][size_t(v.result)] = true; };
  for (size_t i = 0; i < region.outputs.size(); ++i)
    if (live_outputs[i]) need(region.outputs[i]);
  for (int n = region.size() - 1; n >= 0; --n) {
    const std::vector<char>& results = needed[size_t(n)];
    const bool effects = has_effects(region[n]);
    if (!effects && std::none_of(results.begin(), results.end(), [](char r) { return r; })) continue;
    const bool parts = Loop::is_one(region[n]) && !effects;
    const std::vector<char> operands = parts ? needed_operands(region, n, results) : std::vector<char>(region[n].inputs.size(), true);
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i]) need(region[n].inputs[i]);
  }
  std::vector<char> out;
  for (Value v : region.inputs) out.push_back(needed[size_t(v.node)][0]);
  return out;
}

// Whether a carried value that never changes is needed: its result is its initial value.
bool Needs::used_elsewhere(const Loop& loop, const Live& live, size_t input) {
  for (size_t r = 0; r < loop.regions.size(); ++r) {
    std::vector<char> outputs(loop.regions[r].outputs.size(), true);
    if (r + 1 == loop.regions.size())
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = live.outputs[i] && i != input;
    if (needed_inputs(loop.regions[r], outputs)[input]) return true;
  }
  return false;
}

Live Needs::find_live(const Loop& loop, std::vector<char> results) {
  const bool is_loop = loop.op != &ops::def::cond;
  const Graph& body = loop.body();
  const size_t carried = loop.carried.size();
  Live live{std::move(results), std::vector<char>(body.inputs.size()), std::vector<char>(carried)};
  for (size_t i = 0; i < carried; ++i) live.invariant[i] = body.outputs[i] == body.inputs[i];
  for (bool again = true; again;) {
    again = false;
    for (size_t r = 0; r < loop.regions.size(); ++r) {
      const bool condition = is_loop && r + 1 < loop.regions.size();
      const std::vector<char> needed = needed_inputs(loop.regions[r], condition ? std::vector<char>(1, true) : live.outputs);
      for (size_t i = 0; i < needed.size(); ++i) live.inputs[i] = live.inputs[i] || needed[i];
    }
    for (size_t i = 0; i < carried; ++i)
      if (live.inputs[i] && !live.outputs[i]) live.outputs[i] = again = true;
  }
  for (size_t i = 0; i < carried; ++i)
    if (live.invariant[i]) live.inputs[i] = used_elsewhere(loop, live, i);
  return live;
}

Graph drop_once(const Graph& g, Needs& needs);

class Dropping {
 public:
  Dropping(const Graph& g, const Uses& uses, Needs& needs, int node, Rewriter& to)
      : uses_(uses), needs_(needs), node_(node), to_(to), old_(g, node), is_loop_(old_.op != &ops::def::cond) {}

  void run() {
    std::vector<char> used(old_.body().outputs.size());
    for (size_t i = 0; i < used.size(); ++i) used[i] = uses_.of({node_, int(i)}) > 0;
    Live live = needs_.find_live(old_, std::move(used));
    Loop now = old_;
    while (!drop_inside(live, now)) {
    }
    const std::vector<char>&live_inputs = live.inputs, &invariant = live.invariant;
    now.carried.clear(), now.stacked.clear(), now.captures.clear();
    std::vector<size_t> kept;  // of the regions' inputs
    const size_t carried = old_.carried.size(), stacked = old_.stacked.size();
    for (size_t i = 0; i < carried; ++i)
      if (live.gives(i)) now.carried.push_back(old_.carried[i]), kept.push_back(i);
    for (size_t i = 0; i < stacked; ++i)
      if (live_inputs[carried + i]) now.stacked.push_back(old_.stacked[i]), kept.push_back(carried + i);
    for (size_t i = 0; i < old_.captures.size(); ++i)
      if (live_inputs[carried + stacked + i]) now.captures.push_back(old_.captures[i]), kept.push_back(carried + stacked + i);
    for (size_t i = 0; i < carried; ++i)
      if (invariant[i] && live_inputs[i]) now.captures.push_back(old_.carried[i]), kept.push_back(i);
    for (Graph& region : now.regions) region = select_region(region, kept, region.outputs);
    std::vector<int> result_of(old_.body().outputs.size(), -1);
    int results = 0;
    for (size_t i = 0; i < result_of.size(); ++i)
      if (live.gives(i)) result_of[i] = results++;
    to_.stand_at(node_);
    const Value first = now.add(to_);
    for (size_t i = 0; i < result_of.size(); ++i) {
      if (i < carried && invariant[i])
        to_.map({node_, int(i)}, to_[old_.carried[i]]);
      else if (result_of[i] >= 0)
        to_.map({node_, int(i)}, {first.node, result_of[i]});
    }
    if (old_.op == &ops::def::while_loop) to_.map({node_, int(carried)}, {first.node, int(now.carried.size())});
  }

 private:
  // The regions with only the live outputs, and without what inner loops and branches compute for the others. False when the rest still
  // uses a carried value that was not live, because one sweep does not reach everything; the value is live then.
  bool drop_inside(Live& live, Loop& now) const {
    const size_t carried = old_.carried.size();
    bool done = true;
    for (size_t r = 0; r < old_.regions.size(); ++r) {
      const bool condition = is_loop_ && r + 1 < old_.regions.size();
      Graph region = old_.regions[r];
      region.outputs.clear();
      for (size_t i = 0; i < old_.regions[r].outputs.size(); ++i)
        if (condition || live.gives(i)) region.outputs.push_back(old_.regions[r].outputs[i]);
      now.regions[r] = drop_once(region, needs_);
      const Uses uses(now.regions[r]);
      for (size_t i = 0; i < live.inputs.size(); ++i) {
        if (uses.of(now.regions[r].inputs[i]) == 0) continue;
        live.inputs[i] = true;
        if (i < carried && !live.outputs[i] && !live.invariant[i]) live.outputs[i] = true, done = false;
      }
    }
    return done;
  }

  const Uses& uses_;
  Needs& needs_;
  const int node_;
  Rewriter& to_;
  const Loop old_;
  const bool is_loop_;
};

// One sweep through the graph and all regions, from the outside in.
Graph drop_once(const Graph& g, Needs& needs) {
  const Uses uses(g);
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (!uses.live(i)) continue;  // it may use what is dropped
    if (Loop::is_one(g[i])) {
      Dropping(g, uses, needs, i, rewriter).run();
      continue;
    }
    Node node = g[i];
    if (ops::owns_programs(node))
      for (ir::GraphRef& region : node.regions) region = std::make_shared<const Graph>(drop_once(*region, needs));
    rewriter.copy(i, node);
  }
  return rewriter.finish();
}
Graph sweep(const Graph& g) {
  Needs needs;
  return drop_once(g, needs);
}

}  // namespace

// Dropping values in an inner loop may make values of an outer loop unused, so sweeps repeat until nothing changes. Each sweep covers the
// whole graph; separate sweeps per region would multiply with the nesting depth.
Graph drop_unused_loop_values(const Graph& g) {
  if (std::none_of(g.nodes().begin(), g.nodes().end(), ops::owns_programs)) return g;
  Graph now = sweep(g);
  for (Graph next = sweep(now); !ir::equal(now, next); next = sweep(now)) now = std::move(next);
  return now;
}

}  // namespace lamina::passes
