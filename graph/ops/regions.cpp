#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"

namespace lamina::ops {

Value cond(Graph& g, Value pred, std::vector<Value> captures, ir::GraphRef then, ir::GraphRef otherwise) {
  captures.insert(captures.begin(), pred);
  return g.add(def::cond, nullptr, std::move(captures), {std::move(then), std::move(otherwise)});
}

Value while_loop(Graph& g, std::vector<Value> carried, std::vector<Value> captures, ir::GraphRef condition, ir::GraphRef body,
                 int64_t maximum) {
  ir::AttrsRef attrs = ir::make_attrs(LoopAttrs{int64_t(carried.size()), maximum});
  carried.insert(carried.end(), captures.begin(), captures.end());
  return g.add(def::while_loop, std::move(attrs), std::move(carried), {std::move(condition), std::move(body)});
}

Value scan(Graph& g, std::vector<Value> carried, std::vector<Value> stacked, std::vector<Value> captures, ir::GraphRef body, Dim length,
           bool reverse, Value count) {
  ir::AttrsRef attrs = ir::make_attrs(ScanAttrs{int64_t(carried.size()), int64_t(stacked.size()), {length}, reverse, count.valid()});
  carried.insert(carried.end(), stacked.begin(), stacked.end());
  carried.insert(carried.end(), captures.begin(), captures.end());
  if (count.valid()) carried.push_back(count);
  return g.add(def::scan, std::move(attrs), std::move(carried), {std::move(body)});
}

Value with_length(Graph& g, Value length, std::vector<Value> inputs, ir::GraphRef region, const std::string& symbol) {
  inputs.insert(inputs.begin(), length);
  return g.add(def::with_length, ir::make_attrs(LengthAttrs{symbol}), std::move(inputs), {std::move(region)});
}

Value checkpoint(Graph& g, std::vector<Value> captures, ir::GraphRef region) {
  return g.add(def::checkpoint, nullptr, std::move(captures), {std::move(region)});
}
Value after(Graph& g, Value x, Value y) { return g.add(def::after, {x, y}); }
Value custom_gradient(Graph& g, std::vector<Value> values, int64_t inputs, ir::GraphRef forward, ir::GraphRef backward) {
  return g.add(def::custom_gradient, ir::make_attrs(CustomGradientAttrs{inputs}), std::move(values),
               {std::move(forward), std::move(backward)});
}

bool owns_programs(const ir::Node& node) {
  return node.op == &def::cond || node.op == &def::while_loop || node.op == &def::scan || node.op == &def::with_length;
}

std::vector<Value> inline_region(Graph& g, const Graph& region, std::span<const Value> inputs) {
  ir::Rewriter to(region, g);
  for (size_t i = 0; i < inputs.size(); ++i) to.map(region.inputs[i], inputs[i]);
  const std::vector<char> needed = ir::needed_nodes(region, region.outputs);
  for (int n = 0; n < region.size(); ++n)
    if (needed[size_t(n)] && !to.mapped(n)) to.copy(n);
  return to[region.outputs];
}

std::vector<uint8_t> used_inputs(const Graph& region) {
  const std::vector<char> needed = ir::needed_nodes(region, region.outputs);
  std::vector<uint8_t> out;
  for (Value v : region.inputs) out.push_back(needed[size_t(v.node)]);
  return out;
}

}  // namespace lamina::ops
