#include <map>

#include "graph/passes/loops.h"
#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

bool same_nodes(const Graph& a, const Graph& b) {
  Graph x = a, y = b;
  x.outputs.clear(), y.outputs.clear();
  return ir::equal(x, y);
}

// Whether scan b does all that scan a does, and stacks more: the same inputs and nodes, with a's outputs first.
bool does_more(const Node& a, const Node& b) {
  if (a.inputs != b.inputs || a.device != b.device || !a.attrs->equals(*b.attrs)) return false;
  const Graph &less = *a.regions[0], &more = *b.regions[0];
  return less.outputs.size() < more.outputs.size() && std::equal(less.outputs.begin(), less.outputs.end(), more.outputs.begin()) &&
         same_nodes(less, more);
}

}  // namespace

Graph merge_loops(const Graph& g) {
  std::map<std::vector<Value>, std::vector<int>> scans;  // by their inputs
  for (int i = 0; i < g.size(); ++i)
    if (is(g[i], ops::def::scan)) scans[g[i].inputs].push_back(i);
  std::vector<int> instead(size_t(g.size()), -1);  // per scan: the one that does more
  for (auto& [inputs, list] : scans)
    for (size_t a = 0; a < list.size(); ++a)
      for (size_t b = 0; b < list.size(); ++b)
        if (a != b && does_more(g[list[a]], g[list[b]]) &&
            (instead[size_t(list[a])] < 0 || g[instead[size_t(list[a])]].types.size() < g[list[b]].types.size()))
          instead[size_t(list[a])] = list[b];
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (rewriter.mapped(i)) continue;
    const int other = instead[size_t(i)];
    if (other < 0) {
      rewriter.copy(i);
      continue;
    }
    // It has the same inputs, so it can be placed here.
    rewriter.map_results(i, rewriter.mapped(other) ? rewriter[Value{other, 0}] : rewriter.copy(other));
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
