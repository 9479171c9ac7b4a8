#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

Graph remove_dead_nodes(const Graph& g) {
  const Uses uses(g);
  int dead = 0;
  for (int i = 0; i < g.size(); ++i) dead += !uses.live(i);
  if (dead == 0) return g;
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i)
    if (uses.live(i)) rewriter.copy(i);
  return rewriter.finish();
}

}  // namespace lamina::passes
