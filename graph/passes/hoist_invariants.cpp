#include <algorithm>

#include "graph/passes/loops.h"
#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// Free nodes, and nodes whose results take more memory than their inputs: they move only together with a user.
bool stays(const Node& node) {
  return is(node, ops::def::constant) || is(node, ops::def::broadcast_to) || is(node, ops::def::iota) || is(node, ops::def::one_hot) ||
         node.op->alias;
}
// Nodes that may fail must not run before the body is known to run.
bool may_fail(const Node& node) {
  return is(node, ops::def::gather) || is(node, ops::def::scatter_add) || is(node, ops::def::sparse_cross_entropy) ||
         is(node, ops::def::check_numerics) || !node.regions.empty();
}

// Without the exchanges between ranks and what depends on them, which nothing that moves needs.
Graph without_exchanges(const Graph& g) {
  Rewriter rewriter(g);
  std::vector<char> left(size_t(g.size()));
  for (int n = 0; n < g.size(); ++n) {
    left[size_t(n)] =
        ir::has_collective(g[n]) || std::any_of(g[n].inputs.begin(), g[n].inputs.end(), [&](Value v) { return left[size_t(v.node)]; });
    if (!left[size_t(n)]) rewriter.copy(n);
  }
  return rewriter.finish();
}

class Hoisting {
 public:
  Hoisting(const Graph& g, int node, Rewriter& to) : to_(to), node_(node), old_(g, node) {}

  bool run() {
    const Graph& body = old_.body();
    const size_t first_capture = old_.carried.size() + old_.stacked.size();
    invariant_.resize(size_t(body.size()));
    for (size_t i = first_capture; i < body.inputs.size(); ++i) invariant_[size_t(body.inputs[i].node)] = true;
    for (int n = 0; n < body.size(); ++n) {
      const Node& node = body[n];
      if (is(node, ops::def::input)) continue;
      invariant_[size_t(n)] = is_pure(node) && !may_fail(node) &&
                              std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value v) { return invariant_[size_t(v.node)]; });
    }
    // The values that leave the invariant part and are worth moving.
    std::vector<Value> moved;
    auto leave = [&](Value v) {
      if (invariant_[size_t(v.node)] && !is(body[v], ops::def::input) && !stays(body[v]) &&
          std::find(moved.begin(), moved.end(), v) == moved.end())
        moved.push_back(v);
    };
    std::vector<char> inside(size_t(body.size()));  // stays in the body, with everything it needs
    for (int n = body.size() - 1; n >= 0; --n) {
      const bool user = !invariant_[size_t(n)] || inside[size_t(n)];
      if (!user || is(body[n], ops::def::input)) continue;
      for (Value v : body[n].inputs) {
        if (invariant_[size_t(v.node)] && stays(body[v])) inside[size_t(v.node)] = true;
        leave(v);
      }
    }
    for (Value v : body.outputs) {
      if (invariant_[size_t(v.node)] && stays(body[v])) inside[size_t(v.node)] = true;
      leave(v);
    }
    // One more round for nodes that only outputs keep inside.
    for (int n = body.size() - 1; n >= 0; --n)
      if (inside[size_t(n)])
        for (Value v : body[n].inputs) {
          if (invariant_[size_t(v.node)] && stays(body[v])) inside[size_t(v.node)] = true;
          leave(v);
        }
    if (moved.empty()) return false;
    std::sort(moved.begin(), moved.end());
    rebuild(moved);
    return true;
  }

 private:
  void rebuild(const std::vector<Value>& moved) {
    const Graph& body = old_.body();
    // Outside: the invariant part, applied to the captures.
    std::vector<size_t> all(body.inputs.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    const Graph part = without_exchanges(ir::without_host_effects(select_region(body, all, moved)));  // prints stay inside
    std::vector<Value> in(body.inputs.size());
    const size_t first_capture = old_.carried.size() + old_.stacked.size();
    for (size_t i = first_capture; i < in.size(); ++i) in[i] = to_[old_.captures[i - first_capture]];
    const std::vector<Value> outside = ops::inline_region(to_.to, part, in);
    // Inside: the moved values are inputs.
    std::vector<Value> captures = to_[old_.captures];
    captures.insert(captures.end(), outside.begin(), outside.end());
    std::vector<Graph> regions;
    for (size_t r = 0; r < old_.regions.size(); ++r)
      regions.push_back(with_inputs(old_.regions[r], body, moved, r + 1 == old_.regions.size()));
    to_.stand_at(node_);
    auto share = [](Graph g) { return std::make_shared<const Graph>(std::move(g)); };
    Value first;
    if (old_.op == &ops::def::while_loop)
      first = ops::while_loop(to_.to, to_[old_.carried], std::move(captures), share(regions[0]), share(regions[1]), old_.maximum);
    else
      first = ops::scan(to_.to, to_[old_.carried], to_[old_.stacked], std::move(captures), share(regions[0]), old_.scan.length[0],
                        old_.scan.reverse, old_.count.valid() ? to_[old_.count] : Value{});
    to_.map_results(node_, first);
  }

  // The region with one more input per moved value, which replaces the value in the body.
  static Graph with_inputs(const Graph& region, const Graph& body, const std::vector<Value>& moved, bool is_body) {
    Graph out;
    out.place = region.place;
    Rewriter to(region, out);
    for (Value v : region.inputs) to.map(v, out.add_input(region.type(v), ir::attrs_of<ir::InputAttrs>(*region[v].attrs).name));
    std::vector<Value> added;
    for (Value v : moved) added.push_back(out.add_input(body.type(v)));
    for (int n = 0; n < region.size(); ++n) {
      if (!to.mapped(n)) to.copy(n);
      for (size_t i = 0; is_body && i < moved.size(); ++i)
        if (moved[i].node == n) to.map(moved[i], added[i]);
    }
    out.outputs = to[region.outputs];
    return remove_dead_nodes(out);
  }

  Rewriter& to_;
  const int node_;
  const Loop old_;
  std::vector<char> invariant_;
};

}  // namespace

Graph hoist_invariants(const Graph& g) {
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    const bool loop = is(g[i], ops::def::while_loop) || is(g[i], ops::def::scan);
    if (!loop || !Hoisting(g, i, rewriter).run()) rewriter.copy(i);
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
