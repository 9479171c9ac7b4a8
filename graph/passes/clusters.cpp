#include "graph/passes/clusters.h"

#include <algorithm>

namespace lamina::passes {
namespace {

constexpr int kLongestSearch = 200;  // groups

bool contains(const std::vector<int>& list, int number) { return std::find(list.begin(), list.end(), number) != list.end(); }

}  // namespace

Clusters::Clusters(const Graph& g, const Uses& uses, GroupRules& rules)
    : g_(g), rules_(rules), parent_(size_t(g.size())), groups_(size_t(g.size())) {
  const auto effects = effect_order(g);
  for (int i = 0; i < g.size(); ++i) {
    parent_[size_t(i)] = i;
    if (uses.live(i)) place(i, effects[size_t(i)]);
  }
}

int Clusters::of(int node) const {
  int root = node;
  while (parent_[size_t(root)] != root) root = parent_[size_t(root)];
  while (parent_[size_t(node)] != root) node = std::exchange(parent_[size_t(node)], root);
  return root;
}

int Clusters::merge(int a, int b) {
  if (a == b) return a;
  const int into = std::min(a, b), from = std::max(a, b);
  Group &kept = groups_[size_t(into)], &gone = groups_[size_t(from)];
  const int level = std::max(kept.level, gone.level);
  parent_[size_t(from)] = into;
  kept.needs.insert(kept.needs.end(), gone.needs.begin(), gone.needs.end());
  kept.outside.insert(kept.outside.end(), gone.outside.begin(), gone.outside.end());
  kept.level = std::min(kept.level, gone.level);
  gone = {};
  rules_.merged(from, into);
  lift(into, level);  // from the lower level; its users may have to move
  return into;
}

// Raises a group, and its users as far as necessary.
void Clusters::lift(int lowest, int level) {
  std::vector<std::pair<int, int>> todo{{lowest, level}};
  while (!todo.empty()) {
    const auto [name, at_least] = todo.back();
    todo.pop_back();
    Group& lifted = groups_[size_t(name)];
    if (lifted.level >= at_least) continue;
    lifted.level = at_least;
    for (int user : lifted.outside)
      if (const int next = of(user); next != name) todo.emplace_back(next, at_least + lifted.open);
  }
}

// Whether a path leaves the group `from` and reaches one of the targets. True if the search gives up.
bool Clusters::leads_to(int from, const std::vector<int>& targets) {
  const int search = searches_++, level = groups_[size_t(from)].level;
  std::vector<int> todo;
  int seen = 0;
  auto visit = [&](int name) {
    Group& next = groups_[size_t(name)];
    if (name == from || next.visited == search || next.level <= level) return;
    next.visited = search;
    todo.push_back(name);
  };
  for (int target : targets) visit(target);
  while (!todo.empty()) {
    const int name = todo.back();
    todo.pop_back();
    if (++seen > kLongestSearch) return true;
    for (int need : groups_[size_t(name)].needs) {
      const int before = of(need);
      if (before == from) return true;
      if (before != name) visit(before);
    }
  }
  return false;
}

// The level for the node, and the candidates that it can join there. False: a candidate was dropped, try again.
bool Clusters::choose(std::vector<int>& candidates, const std::vector<int>& before, int& level) {
  level = 0;
  for (int name : before)
    level = std::max(level, groups_[size_t(name)].level + (groups_[size_t(name)].open && !contains(candidates, name)));
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Group& data = groups_[size_t(candidates[i])];
    bool fits = data.level == level || data.outside.empty() || !leads_to(candidates[i], before);
    for (size_t j = 0; j < i && fits; ++j) fits = rules_.may_merge(candidates[i], candidates[j]);
    if (!fits) {
      candidates.erase(candidates.begin() + int64_t(i));
      return false;
    }
  }
  return true;
}

void Clusters::place(int node, const std::vector<int>& after) {
  std::vector<int> before, candidates;
  const bool open = rules_.may_start(node);
  for (Value v : g_[node].inputs) {
    const int name = of(v.node);
    if (contains(before, name)) continue;
    before.push_back(name);
    if (!open || !groups_[size_t(name)].open) continue;
    std::vector<Value> operands;
    for (Value u : g_[node].inputs)
      if (of(u.node) == name) operands.push_back(u);
    if (rules_.may_join(node, name, operands)) candidates.push_back(name);
  }
  for (int earlier : after)
    if (const int name = of(earlier); !contains(before, name)) before.push_back(name);
  // The highest first, because it cannot be lifted later.
  std::sort(candidates.begin(), candidates.end(),
            [&](int a, int b) { return std::pair(-groups_[size_t(a)].level, a) < std::pair(-groups_[size_t(b)].level, b); });
  int level = 0;
  while (!choose(candidates, before, level)) {
  }
  groups_[size_t(node)] = {.level = level, .open = open, .needs = before, .outside = {}};
  for (int name : before)
    if (!contains(candidates, name)) groups_[size_t(name)].outside.push_back(node);
  if (!open) return;
  rules_.started(node);
  int mine = node;
  for (int name : candidates) mine = merge(mine, name);
  if (const int other = rules_.partner(node); other >= 0) {
    const int theirs = of(other);
    const Group& data = groups_[size_t(theirs)];
    const bool free = data.level >= level || data.outside.empty() || !leads_to(theirs, before);
    if (data.open && theirs != mine && free && rules_.may_merge(mine, theirs)) merge(mine, theirs);
  }
}

}  // namespace lamina::passes
