#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

// Whether v is a transpose that exchanges the last two axes and nothing else.
bool exchanges_matrix_axes(const Graph& g, Value v) {
  if (!is(g[v], ops::def::transpose)) return false;
  const auto& axes = ir::attrs_of<ops::TransposeAttrs>(*g[v].attrs).axes;
  const auto rank = int64_t(axes.size());
  if (rank < 2) return false;
  auto axis = [&](int64_t i) { return axes[size_t(i)] < 0 ? axes[size_t(i)] + rank : axes[size_t(i)]; };
  for (int64_t i = 0; i < rank - 2; ++i)
    if (axis(i) != i) return false;
  return axis(rank - 2) == rank - 1 && axis(rank - 1) == rank - 2;
}

}  // namespace

Graph fold_transposes_into_matmul(const Graph& g) {
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    if (!is(node, ops::def::matmul)) {
      rewriter.copy(i);
      continue;
    }
    ops::MatmulAttrs attrs = ir::attrs_of<ops::MatmulAttrs>(*node.attrs);
    Value a = rewriter[node.inputs[0]], b = rewriter[node.inputs[1]];
    bool folded = false;
    for (; exchanges_matrix_axes(rewriter.to, a); folded = true) a = rewriter.to[a].inputs[0], attrs.transpose_a = !attrs.transpose_a;
    for (; exchanges_matrix_axes(rewriter.to, b); folded = true) b = rewriter.to[b].inputs[0], attrs.transpose_b = !attrs.transpose_b;
    if (!folded) {
      rewriter.copy(i);
      continue;
    }
    rewriter.stand_at(i);
    rewriter.map({i, 0}, ops::matmul(rewriter.to, a, b, attrs.transpose_a, attrs.transpose_b, attrs.precision));
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
