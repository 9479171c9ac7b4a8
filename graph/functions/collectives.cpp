#include "graph/functions/collectives.h"

#include <array>

#include "graph/frontend/eager.h"
#include "graph/functions/op_functions.h"
#include "graph/ops/ops.h"

namespace lamina::distributed {
namespace {

ops::CollectiveAttrs attrs_for(std::optional<int64_t> shards, const std::string& name) {
  const Communicator& c = current();
  return {.ranks = c.size(), .rank = 0, .shards = shards.value_or(c.size()), .root = 0, .routes = {}, .name = name};
}
Tensor call(const ir::OpDef& op, const Tensor& x, ops::CollectiveAttrs attrs, CallSite at) {
  return apply_one(op, ir::make_attrs(std::move(attrs)), std::array{x}, at);
}
// x with an axis of leaves in front.
Tensor leaves_of(const Operand& x, bool stacked) {
  const Tensor t = x.resolve();
  if (stacked) return t;
  Shape shape = t.shape();
  shape.insert(shape.begin(), 1);
  return reshape_to(Operand(t, x.at()), shape);
}

}  // namespace

Tensor all_reduce(const Operand& x, std::optional<int64_t> shards, const std::string& name) {
  return call(ops::def::all_reduce, leaves_of(x, shards.has_value()), attrs_for(shards, name), x.at());
}
Tensor all_gather(const Operand& x, const std::string& name) {
  return call(ops::def::all_gather, x.resolve(), attrs_for({}, name), x.at());
}
Tensor reduce_scatter(const Operand& x, std::optional<int64_t> shards, const std::string& name) {
  return call(ops::def::reduce_scatter, leaves_of(x, shards.has_value()), attrs_for(shards, name), x.at());
}
Tensor broadcast(const Operand& x, int64_t root, const std::string& name) {
  ops::CollectiveAttrs attrs = attrs_for({}, name);
  attrs.root = root, attrs.rank = rank();
  return call(ops::def::broadcast_from, x.resolve(), std::move(attrs), x.at());
}
Tensor send_receive(const Operand& x, const std::vector<std::pair<int64_t, int64_t>>& routes, const std::string& name) {
  ops::CollectiveAttrs attrs = attrs_for({}, name);
  for (const auto& [from, to] : routes) attrs.routes.insert(attrs.routes.end(), {from, to});
  return call(ops::def::send_receive, x.resolve(), std::move(attrs), x.at());
}

}  // namespace lamina::distributed
