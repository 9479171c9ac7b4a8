#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

Graph inline_checkpoints(const Graph& g) {
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (!is(g[i], ops::def::checkpoint)) {
      rewriter.copy(i);
      continue;
    }
    const Graph region = inline_checkpoints(*g[i].regions[0]);
    const std::vector<Value> results = ops::inline_region(rewriter.to, region, rewriter[g[i].inputs]);
    for (size_t r = 0; r < results.size(); ++r) rewriter.map({i, int(r)}, results[r]);
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
