#include "graph/frontend/replay.h"

#include <optional>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"

namespace lamina {

std::vector<Tensor> replay(const ir::Graph& g, std::span<const Tensor> inputs, std::span<const Variable> variables) {
  std::vector<std::vector<Tensor>> values(size_t(g.size()));
  for (size_t i = 0; i < g.inputs.size(); ++i) values[size_t(g.inputs[i].node)] = {inputs[i]};
  std::vector<Tensor> in;
  for (int n = 0; n < g.size(); ++n) {
    const ir::Node& node = g[n];
    const int resource = ir::resource_of(node);
    if (node.op == &ops::def::input) continue;
    if (const ir::Literal* literal = ir::constant_value(g, {n, 0})) {
      values[size_t(n)] = {tensor_of(*literal)};
    } else if (node.op == &ops::def::read) {
      values[size_t(n)] = {variables[size_t(resource)].read(node.line)};
    } else if (node.op == &ops::def::assign) {
      variables[size_t(resource)].assign(Operand(values[size_t(node.inputs[0].node)][size_t(node.inputs[0].result)], node.line));
    } else {
      in.clear();
      for (ir::Value v : node.inputs) in.push_back(values[size_t(v.node)][size_t(v.result)]);
      std::optional<DeviceScope> there;
      if (node.device) there.emplace(*node.device);
      values[size_t(n)] = apply(*node.op, node.attrs, in, node.line, node.regions);
    }
  }
  std::vector<Tensor> out;
  for (ir::Value v : g.outputs) out.push_back(values[size_t(v.node)][size_t(v.result)]);
  return out;
}

}  // namespace lamina
