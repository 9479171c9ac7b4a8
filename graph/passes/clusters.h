// Clusters nodes that will be fused into one node, without cyclic dependences between groups.
//
// Every node has a level. An edge that leaves a group raises the level and no edge lowers it, so a path that leaves a group never comes
// back to its level: a node may join any group of its own level. To join a lower group, the group and all its users are lifted, unless a
// search back from the node's other operands reaches the group. The search gives up early, which keeps the whole linear and may miss a
// chance.
#pragma once
#include <vector>

#include "graph/passes/rewrite.h"

namespace lamina::passes {

// The decisions of a pass. A group is named by one of its nodes, Clusters::of().
class GroupRules {
 public:
  virtual ~GroupRules() = default;
  virtual bool may_start(int node) const = 0;  // whether the node may be in a group at all
  // Whether a node may join a group. `operands` are its inputs that the group makes.
  virtual bool may_join(int node, int group, std::span<const Value> operands) const = 0;
  virtual bool may_merge(int a, int b) const = 0;
  virtual int partner(int) const { return -1; }  // a node whose group it joins although it does not use it
  virtual void started(int) {}                   // a group of one
  virtual void merged(int from, int into) = 0;   // `from` no longer names a group
};

class Clusters {
 public:
  // Groups all live nodes of g.
  Clusters(const Graph& g, const Uses& uses, GroupRules& rules);
  int of(int node) const;

 private:
  struct Group {
    int level = 0;
    bool open = false;         // a group, not a single node that may not be in one
    std::vector<int> needs;    // nodes that its nodes use or wait for
    std::vector<int> outside;  // nodes outside that use it or wait for it
    int visited = -1;          // the last search that visited it
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
