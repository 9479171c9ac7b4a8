#include "graph/passes/clusters.h"
#include "graph/passes/fused_group.h"
#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// The registers of a longer group would not fit the cache.
constexpr int kMostMembers = 64;

class ElementwiseRules final : public GroupRules {
 public:
  explicit ElementwiseRules(const Graph& g) : g_(g), members_(size_t(g.size()), 1) {}
  bool may_start(int node) const override { return is_elementwise(g_[node]); }
  bool may_join(int node, int group, std::span<const Value>) const override {
    return g_[node].types[0].shape == g_[group].types[0].shape && g_[node].device == g_[group].device &&
           members_[size_t(group)] < kMostMembers;
  }
  bool may_merge(int a, int b) const override { return members_[size_t(a)] + members_[size_t(b)] < kMostMembers; }
  void merged(int from, int into) override { members_[size_t(into)] += members_[size_t(from)]; }

 private:
  const Graph& g_;
  std::vector<int> members_;
};

}  // namespace

Graph fuse_elementwise(const Graph& g) {
  const Uses uses(g);
  ElementwiseRules rules(g);
  const Clusters clusters(g, uses, rules);
  std::vector<int> unit_of(size_t(g.size()), -1), uses_inside(size_t(g.size()));
  for (int i = 0; i < g.size(); ++i) {
    if (!uses.live(i)) continue;
    unit_of[size_t(i)] = clusters.of(i);
    for (Value v : g[i].inputs)
      if (unit_of[size_t(v.node)] == unit_of[size_t(i)]) ++uses_inside[size_t(v.node)];
  }
  Rewriter rewriter(g);
  for (const auto& members : order_units(g, unit_of)) {
    if (members.size() == 1) {
      rewriter.copy(members[0]);
      continue;
    }
    const FusedGroup group = make_group(g, {}, members, [&](Value v) { return uses.of(v) > uses_inside[size_t(v.node)]; });
    rewriter.stand_at(members.back());
    const Value fused = ops::fused_elementwise(rewriter.to, group.graph, rewriter[group.inputs]);
    for (size_t r = 0; r < group.outputs.size(); ++r) rewriter.map(group.outputs[r], {fused.node, int(r)});
  }
  return remove_dead_nodes(rewriter.finish());
}

}  // namespace lamina::passes
