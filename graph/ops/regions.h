// Ops that own graphs (regions): cond, while_loop, scan, with_length and checkpoint. A region connects to its surroundings only by inputs
// and outputs. It has no resources: state is read before the node and assigned after it.
#pragma once
#include "graph/ir/graph.h"
#include "graph/ops/attrs.h"

namespace lamina::ops {

using ir::Graph;
using ir::Value;

struct LoopAttrs {
  int64_t carried = 0;   // number of inputs that change from iteration to iteration; the others are captures
  int64_t maximum = -1;  // limit of iterations; -1: none
  static constexpr auto fields = std::tuple{field("carried", &LoopAttrs::carried), field("maximum", &LoopAttrs::maximum)};
};
struct ScanAttrs {
  int64_t carried = 0, stacked = 0;  // order of inputs: carried, stacked, captures, count
  Shape length;                      // one dimension
  bool reverse = false;              // from the last slice to the first
  bool counted = false;              // the last input is an i64 count: only that many slices are used
  static constexpr auto fields =
      std::tuple{field("carried", &ScanAttrs::carried), field("stacked", &ScanAttrs::stacked), field("length", &ScanAttrs::length),
                 field("reverse", &ScanAttrs::reverse), field("counted", &ScanAttrs::counted)};
};
struct CustomGradientAttrs {
  int64_t inputs = 0;  // number of inputs that have gradients
  static constexpr auto fields = std::tuple{field("inputs", &CustomGradientAttrs::inputs)};
};
struct LengthAttrs {
  std::string symbol;  // bound at run time to at least the first input
  static constexpr auto fields = std::tuple{field("symbol", &LengthAttrs::symbol)};
};

// Runs one of two regions, both (captures...) -> results of the same types. pred: bool[]. Returns the first result.
Value cond(Graph& g, Value pred, std::vector<Value> captures, ir::GraphRef then, ir::GraphRef otherwise);
// Repeats carried = body(carried..., captures...) while condition(carried..., captures...), a bool[], holds and fewer than `maximum`
// iterations have run. Results: the carried values, then the number of iterations as i64[].
Value while_loop(Graph& g, std::vector<Value> carried, std::vector<Value> captures, ir::GraphRef condition, ir::GraphRef body,
                 int64_t maximum = -1);
// Runs carried, y = body(carried..., x[i]..., captures...) for each index i of the stacked values' first axis. Results: the final carried
// values, then the ys, each stacked along a new first axis. With a count (i64[], at most the length), later slices are skipped and their ys
// are 0.
Value scan(Graph& g, std::vector<Value> carried, std::vector<Value> stacked, std::vector<Value> captures, ir::GraphRef body, Dim length,
           bool reverse = false, Value count = {});
// Runs the region with its symbol bound to at least `length` (i64[]). No result's type may contain the symbol.
Value with_length(Graph& g, Value length, std::vector<Value> inputs, ir::GraphRef region, const std::string& symbol);

// The region's results. The gradient recomputes the region's values instead of keeping them.
Value checkpoint(Graph& g, std::vector<Value> captures, ir::GraphRef region);
// x, with a false dependence on y: users of this result run after y is computed. It is never merged with x, so computations on it stay
// recomputations.
Value after(Graph& g, Value x, Value y);
// The results of `forward`, with a user-defined gradient. forward: (inputs..., captures...) -> results. backward: (inputs..., captures...,
// one cotangent per floating-point result) -> one gradient per input. `inputs` is how many of `values` come first as inputs; captures get
// no gradient.
Value custom_gradient(Graph& g, std::vector<Value> values, int64_t inputs, ir::GraphRef forward, ir::GraphRef backward);

// Whether a node's regions are compiled as programs of their own (unlike the region of a fused node).
bool owns_programs(const ir::Node& node);
// Adds the region's nodes to g with these inputs (invalid: an unused one). Returns the region's outputs.
LAMINA_API std::vector<Value> inline_region(Graph& g, const Graph& region, std::span<const Value> inputs);
// For each input: whether an output depends on it.
std::vector<uint8_t> used_inputs(const Graph& region);

}  // namespace lamina::ops
