#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

Graph inline_checkpoints(const Graph& g) {
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (!is(g[i], ops::def::checkpoint) && !is(g[i], ops::def::custom_gradient)) {
      rewriter.copy(i);
      continue;
    }
    const Graph region = inline_checkpoints(*g[i].regions[0]);
    rewriter.map_results(i, ops::inline_region(rewriter.to, region, rewriter[g[i].inputs]));
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
