#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

Graph remove_dead_nodes(const Graph& g) {
  const Uses uses(g);
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i)
    if (uses.live(i)) rewriter.copy(i);
  return rewriter.finish();
}

}  // namespace lamina::passes
