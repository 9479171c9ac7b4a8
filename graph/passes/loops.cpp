#include "graph/passes/loops.h"

#include "runtime/core/error.h"

namespace lamina::passes {

Loop::Loop(const Graph& g, int number) {
  const Node& node = g[number];
  op = node.op;
  for (const ir::GraphRef& region : node.regions) regions.push_back(*region);
  auto at = node.inputs.begin(), end = node.inputs.end();
  int64_t carried_count = 0, stacked_count = 0;
  if (is(node, ops::def::cond)) {
    pred = *at++;
  } else if (is(node, ops::def::while_loop)) {
    const auto& attrs = ir::attrs_of<ops::LoopAttrs>(*node.attrs);
    carried_count = attrs.carried;
    maximum = attrs.maximum;
  } else {
    scan = ir::attrs_of<ops::ScanAttrs>(*node.attrs);
    carried_count = scan.carried, stacked_count = scan.stacked;
    if (scan.counted) count = *--end;
  }
  carried.assign(at, at + carried_count);
  stacked.assign(at + carried_count, at + carried_count + stacked_count);
  captures.assign(at + carried_count + stacked_count, end);
}

Value Loop::add(Rewriter& to) const {
  std::vector<ir::GraphRef> shared;
  for (const Graph& region : regions) shared.push_back(std::make_shared<const Graph>(region));
  std::vector<Value> first = to[carried], slices = to[stacked], others = to[captures];
  if (op == &ops::def::cond) return ops::cond(to.to, to[pred], std::move(others), shared[0], shared[1]);
  if (op == &ops::def::while_loop) return ops::while_loop(to.to, std::move(first), std::move(others), shared[0], shared[1], maximum);
  return ops::scan(to.to, std::move(first), std::move(slices), std::move(others), shared[0], scan.length[0], scan.reverse,
                   count.valid() ? to[count] : Value{});
}

Graph select_region(const Graph& region, std::span<const size_t> inputs, std::span<const Value> outputs) {
  const std::vector<char> needed = ir::needed_nodes(region, outputs);
  Graph out;
  out.place = region.place;
  Rewriter to(region, out);
  for (size_t i : inputs) {
    const Value old = region.inputs[i];
    to.map(old, out.add_input(region.type(old), ir::attrs_of<ir::InputAttrs>(*region[old].attrs).name));
  }
  for (int n = 0; n < region.size(); ++n) {
    if (!needed[size_t(n)] || to.mapped(n)) continue;
    if (is(region[n], ops::def::input)) internal_error("a pass leaves out an input that its region needs");
    to.copy(n);
  }
  out.outputs = to[outputs];
  return out;
}

}  // namespace lamina::passes
