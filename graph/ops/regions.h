// Ops that own graphs: cond, while_loop, scan, with_length and checkpoint. A region's inputs and outputs are all its connections: it has no
// resources of its own, tensors from around it are inputs, and state is read before the node and assigned after it.
#pragma once
#include "graph/ir/graph.h"
#include "graph/ops/attrs.h"

namespace lamina::ops {

using ir::Graph;
using ir::Value;

struct LoopAttrs {
  int64_t carried = 0;   // how many of the inputs change from iteration to iteration; the others are captures
  int64_t maximum = -1;  // of iterations; -1: no limit
  static constexpr auto fields = std::tuple{field("carried", &LoopAttrs::carried), field("maximum", &LoopAttrs::maximum)};
};
struct ScanAttrs {
  int64_t carried = 0, stacked = 0;  // of the inputs: first the carried ones, then the stacked ones, then captures, then the count
  Shape length;                      // one dimension
  bool reverse = false;              // from the last slice to the first
  bool counted = false;              // the last input is an i64 number: only the slices before it are gone through
  static constexpr auto fields =
      std::tuple{field("carried", &ScanAttrs::carried), field("stacked", &ScanAttrs::stacked), field("length", &ScanAttrs::length),
                 field("reverse", &ScanAttrs::reverse), field("counted", &ScanAttrs::counted)};
};
struct CustomGradientAttrs {
  int64_t inputs = 0;  // how many of the inputs have gradients
  static constexpr auto fields = std::tuple{field("inputs", &CustomGradientAttrs::inputs)};
};
struct LengthAttrs {
  std::string symbol;  // bound to at least the first input when it runs
  static constexpr auto fields = std::tuple{field("symbol", &LengthAttrs::symbol)};
};

// The results of one of two regions, both (captures...) -> results of the same types. pred: bool[]. Returns the first result.
Value cond(Graph& g, Value pred, std::vector<Value> captures, ir::GraphRef then, ir::GraphRef otherwise);
// carried = body(carried..., captures...) as long as condition(carried..., captures...), a bool[], is true and fewer than `maximum`
// iterations have run. Results: the carried values, then the number of iterations as i64[].
Value while_loop(Graph& g, std::vector<Value> carried, std::vector<Value> captures, ir::GraphRef condition, ir::GraphRef body,
                 int64_t maximum = -1);
// carried, y = body(carried..., x[i]..., captures...) for each i of the stacked values' first axis. Results: the last carried values, then
// the ys, each stacked along a new first axis. With a count (i64[], at most the length) the slices from there on are left out; their ys are
// 0.
Value scan(Graph& g, std::vector<Value> carried, std::vector<Value> stacked, std::vector<Value> captures, ir::GraphRef body, Dim length,
           bool reverse = false, Value count = {});
// The region's results, with its symbol standing for a length that is at least `length` (i64[]). No result's type may have the symbol in
// it.
Value with_length(Graph& g, Value length, std::vector<Value> inputs, ir::GraphRef region, const std::string& symbol);

// The region's results; its values are not kept for its gradient, which computes them again.
Value checkpoint(Graph& g, std::vector<Value> captures, ir::GraphRef region);
// x, which nothing that uses this result has before y is computed. No two are merged with x itself: what is computed from it is computed
// again.
Value after(Graph& g, Value x, Value y);
// The results of `forward`, with a gradient of the caller's own. forward: (inputs..., captures...) -> results; backward: (inputs...,
// captures..., a cotangent per floating-point result) -> a gradient per input. `inputs` are the first of `values`; no gradient flows to the
// captures.
Value custom_gradient(Graph& g, std::vector<Value> values, int64_t inputs, ir::GraphRef forward, ir::GraphRef backward);

// Whether a node's regions are programs of their own (and not the inside of a fused node).
bool owns_programs(const ir::Node& node);
// Adds the region's nodes to g with these values as its inputs (not valid: one that nothing uses). Returns its outputs.
LAMINA_API std::vector<Value> inline_region(Graph& g, const Graph& region, std::span<const Value> inputs);
// Which inputs an output depends on.
std::vector<uint8_t> used_inputs(const Graph& region);

}  // namespace lamina::ops
