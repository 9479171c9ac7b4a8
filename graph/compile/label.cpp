#include "graph/compile/label.h"

#include <algorithm>
#include <set>

#include "graph/ops/ops.h"
#include "runtime/exec/range_names.h"

namespace lamina::compile {
namespace {

// The ops that a fused node was made from.
std::vector<std::string> fused_ops(const ir::Node& node) {
  std::vector<std::string> out;
  const bool forward = node.op == &ops::def::dense, backward = node.op == &ops::def::dense_grad_input;
  if (forward || backward || node.op == &ops::def::dense_update || node.op == &ops::def::dense_grad_weights) out.push_back("matmul");
  if (node.op == &ops::def::dense_grad_weights) out.push_back("sum");
  if (forward && node.inputs.size() > 2) out.push_back("add");
  if (forward || backward) {
    const section::Activation activation = ir::attrs_of<ops::ActivationAttrs>(*node.attrs).activation;
    if (activation != section::Activation::none) out.push_back(section::name(activation) + std::string(forward ? "" : "_grad"));
  }
  for (const ir::GraphRef& region : node.regions)
    for (const ir::Node& inner : region->nodes())
      if (inner.op->name != std::string_view("input") && inner.op->name != std::string_view("constant")) out.push_back(inner.op->name);
  return out;
}

constexpr size_t kMostFused = 12;  // named one by one

}  // namespace

std::string label(const ir::Node& node) {
  std::string out = node.scope + node.op->name;
  const std::vector<std::string> fused = fused_ops(node);
  for (size_t i = 0; i < fused.size() && i < kMostFused; ++i) out += (i ? ", " : "(") + fused[i];
  if (fused.size() > kMostFused) out += cat(", ", fused.size() - kMostFused, " more");
  return fused.empty() ? out : out + ')';
}

std::string name_steps(section::TableWithLoops& table, std::span<const Work> work, const ir::Graph& g) {
  constexpr std::string_view gradient = "grad/";
  std::set<std::string> seen;
  std::string layers;
  for (const Work& w : work) {
    const std::string line = exec::behind(w.line);
    table.names.emplace_back(profiler::Kind::step, (w.node >= 0 ? label(g[w.node]) : w.name) + line);
    if (w.node < 0) continue;
    // Each layer once, however many steps it has; ops outside of layers by name.
    std::string_view layer = g[w.node].scope;
    if (layer.starts_with(gradient)) layer.remove_prefix(gradient.size());
    if (layer.ends_with('/')) layer.remove_suffix(1);
    std::string entry = cat(layer.empty() ? std::string_view(g[w.node].op->name) : layer, line);
    if (seen.insert(entry).second) layers += (layers.empty() ? "" : "; ") + entry;
  }
  return layers;
}

}  // namespace lamina::compile
