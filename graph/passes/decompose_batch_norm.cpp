#include <algorithm>

#include "graph/ops/batch_norm.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "runtime/device/backend.h"

namespace lamina::passes {
namespace {

bool is_norm(const Node& node) { return is(node, ops::def::batch_norm_train) || is(node, ops::def::batch_norm_train_grad); }

// Whether a library should run it: the device has one that accepts this much work.
bool is_for_library(const Graph& g, const Node& node, const Target& target) {
  const Device device = target.device_of(node);
  if (!is_norm(node) || device.kind == DeviceKind::cpu) return false;
  TensorType x = g.type(node.inputs[0]);
  x.shape = substitute(x.shape, target.lengths);
  const std::optional<double> operations = ops::batch_norm_operations(x);
  return operations && backend_of(device).image_library_serves(*operations);
}

}  // namespace

bool keeps_batch_norm(const Graph& g, const Target& target) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const Node& node) {
    return is_for_library(g, node, target) || std::any_of(node.regions.begin(), node.regions.end(), [&](const ir::GraphRef& region) {
             return keeps_batch_norm(*region, target.inside(node));
           });
  });
}

Graph decompose_batch_norm(const Graph& g, const Target& target) {
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (!is_norm(g[i]) || ir::attrs_of<ops::BatchNormAttrs>(*g[i].attrs).library) {
      rewriter.copy(i);
      continue;
    }
    Node node = g[i];
    if (!is_for_library(g, node, target)) {
      rewriter.stand_at(i);
      rewriter.map_results(i, node.op->decompose(rewriter.to, *node.attrs, rewriter[node.inputs], {}));
      continue;
    }
    ops::BatchNormAttrs kept = ir::attrs_of<ops::BatchNormAttrs>(*node.attrs);
    kept.library = true;
    node.attrs = ir::make_attrs(kept);
    rewriter.copy(i, node);
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
