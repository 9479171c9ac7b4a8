// Grouping nodes that will become one node, so that no two groups ever need each other.
//
// Every node has a level. An edge that leaves a group raises the level, no edge lowers it; so a path that leaves a group stays above it and
// cannot come back: a node may join every group at its own level. A lower group is lifted to it, with all that uses it, unless a search
// back from the node's other operands finds the group. The search gives up early, which keeps the whole linear and may miss a chance to
// join.
#pragma once
#include <vector>

#include "graph/passes/rewrite.h"

namespace lamina::passes {

// What a pass decides. Groups are named by one of their nodes, Clusters::of().
class GroupRules {
 public:
  virtual ~GroupRules() = default;
  virtual bool may_start(int node) const = 0;  // may it be in a group at all
  // Whether a node may join a group; `operands` are those of its inputs that the group makes.
  virtual bool may_join(int node, int group, std::span<const Value> operands) const = 0;
  virtual bool may_merge(int a, int b) const = 0;
  virtual int partner(int) const { return -1; }  // a node whose group it joins without using it
  virtual void started(int) {}                   // a group of one
  virtual void merged(int from, int into) = 0;   // `from` is no longer a name
};

class Clusters {
 public:
  // Groups all live nodes of g.
  Clusters(const Graph& g, const Uses& uses, GroupRules& rules);
  int of(int node) const;

 private:
  struct Group {
    int level = 0;
    bool open = false;         // a group, not a node that cannot be in one
    std::vector<int> needs;    // nodes that its nodes use, or wait for
    std::vector<int> outside;  // nodes that use it, or wait for it, and are not in it
    int visited = -1;          // the last search that came here
  };
  Group& group(int node) { return groups_[size_t(of(node))]; }
  void place(int node, const std::vector<int>& after);
  bool choose(std::vector<int>& candidates, const std::vector<int>& before, int& level);
  bool leads_to(int from, const std::vector<int>& targets);
  void lift(int lowest, int level);
  int merge(int a, int b);

  const Graph& g_;
  GroupRules& rules_;
  mutable std::vector<int> parent_;
  std::vector<Group> groups_;
  int searches_ = 0;
};

}  // namespace lamina::passes
