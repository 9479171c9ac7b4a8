#include "graph/ops/batch_norm.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

Graph decompose_batch_norm(const Graph& g) {
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    const bool is_norm = is(g[i], ops::def::batch_norm_train) || is(g[i], ops::def::batch_norm_train_grad);
    if (!is_norm || ir::attrs_of<ops::BatchNormAttrs>(*g[i].attrs).library) {
      rewriter.copy(i);
      continue;
    }
    rewriter.stand_at(i);
    const std::vector<Value> results = g[i].op->decompose(rewriter.to, *g[i].attrs, rewriter[g[i].inputs], {});
    for (size_t r = 0; r < results.size(); ++r) rewriter.map({i, int(r)}, results[r]);
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
