#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "runtime/device/backend.h"

namespace lamina::passes {
namespace {

bool is_pooling(const Node& node) { return is(node, ops::def::max_pool2d); }
const ops::MaxPool2dAttrs& attrs_of(const Node& node) { return ir::attrs_of<ops::MaxPool2dAttrs>(*node.attrs); }

bool same_windows(const Node& a, const Node& b) {
  const ops::MaxPool2dAttrs &x = attrs_of(a), &y = attrs_of(b);
  return x.window == y.window && x.strides == y.strides && x.padding == y.padding && x.pads == y.pads;
}

// Per node: whether it is a max_pool2d that becomes one without indices.
std::vector<char> chosen(const Graph& g, const Target& target) {
  std::vector<char> out(size_t(g.size()));
  for (int n = 0; n < g.size(); ++n) {
    const Device device = target.device_of(g[n]);
    if (!is_pooling(g[n]) || device.kind == DeviceKind::cpu) continue;
    const std::optional<double> operations = ops::library_operations(g.type(g[n].inputs[0]), attrs_of(g[n]));
    out[size_t(n)] = operations && backend_of(device).image_library_serves(*operations);
  }
  const auto keep_places = [&](Value v) {
    if (v.result == 1 && is_pooling(g[v])) out[size_t(v.node)] = false;
  };
  for (int n = 0; n < g.size(); ++n)
    for (size_t i = 0; i < g[n].inputs.size(); ++i) {
      const Value v = g[n].inputs[i];
      const bool its_gradient = is(g[n], ops::def::max_pool2d_grad) && i == 1 && is_pooling(g[v]) && same_windows(g[n], g[v]) &&
                                g[n].types[0] == g.type(g[v].inputs[0]);
      if (!its_gradient || target.device_of(g[n]) != target.device_of(g[v])) keep_places(v);
    }
  for (Value v : g.outputs) keep_places(v);
  return out;
}

}  // namespace

Graph use_libraries(const Graph& g, const Target& target) {
  const std::vector<char> without_places = chosen(g, target);
  if (std::find(without_places.begin(), without_places.end(), true) == without_places.end()) return g;
  Rewriter rewriter(g);
  for (int n = 0; n < g.size(); ++n) {
    const Node& node = g[n];
    rewriter.stand_at(n);
    if (without_places[size_t(n)]) {
      rewriter.map({n, 0}, ops::max_pool2d_values(rewriter.to, rewriter[node.inputs[0]], attrs_of(node)));
    } else if (is(node, ops::def::max_pool2d_grad) && without_places[size_t(node.inputs[1].node)]) {
      const Value y{node.inputs[1].node, 0}, x = g[y].inputs[0];
      rewriter.map({n, 0}, ops::max_pool2d_values_grad(rewriter.to, rewriter[x], rewriter[y], rewriter[node.inputs[0]], attrs_of(node)));
    } else {
      rewriter.copy(n);
    }
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
