#include <limits>
#include <optional>

#include "graph/passes/evaluate.h"
#include "graph/passes/loops.h"
#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// Unrolls a loop that is short and has few nodes in all iterations together.
constexpr int64_t kMostUnrolled = 8, kMostNodes = 64;

std::optional<bool> known_bool(const Graph& g, Value v) {
  const ir::Literal* value = uniform_constant(g, v);
  return value ? std::optional(value->first() != 0) : std::nullopt;
}

int64_t cost(const Graph& body) {
  int64_t nodes = 0;
  for (const Node& node : body.nodes()) {
    nodes += !is(node, ops::def::input) && !is(node, ops::def::constant);
    for (const ir::GraphRef& region : node.regions) nodes += ops::owns_programs(node) ? kMostNodes : int64_t(region->size());
  }
  return nodes;
}

bool unrolls(const Loop& loop) {
  const Dim length = loop.scan.length[0];
  return !loop.count.valid() && length.known() && length.number() <= kMostUnrolled && length.number() * cost(loop.body()) <= kMostNodes;
}

// x[i] along the first axis.
Value slice_at(Graph& g, Value x, int64_t i) {
  const Shape shape = g.type(x).shape;
  std::vector<int64_t> begin(shape.size()), end(shape.size(), std::numeric_limits<int64_t>::max()), step(shape.size(), 1);
  begin[0] = i, end[0] = i + 1;
  return ops::reshape(g, ops::slice(g, x, begin, end, step), {shape.begin() + 1, shape.end()});
}

void unroll(const Graph& g, int node, const Loop& loop, Rewriter& to) {
  const int64_t length = loop.scan.length[0].number();
  std::vector<Value> carried = to[loop.carried];
  const std::vector<Value> stacked = to[loop.stacked], captures = to[loop.captures];
  std::vector<std::vector<Value>> ys(g[node].types.size() - carried.size(), std::vector<Value>(size_t(length)));
  for (int64_t n = 0; n < length; ++n) {
    const int64_t i = loop.scan.reverse ? length - 1 - n : n;
    std::vector<Value> in = carried;
    to.stand_at(node);
    for (Value x : stacked) in.push_back(slice_at(to.to, x, i));
    in.insert(in.end(), captures.begin(), captures.end());
    const std::vector<Value> out = ops::inline_region(to.to, loop.body(), in);
    std::copy(out.begin(), out.begin() + int64_t(carried.size()), carried.begin());
    for (size_t y = 0; y < ys.size(); ++y) ys[y][size_t(i)] = out[carried.size() + y];
  }
  to.stand_at(node);
  for (size_t y = 0; y < ys.size(); ++y) {
    const TensorType type = g[node].types[loop.carried.size() + y];
    Shape one = type.shape;
    if (length) one[0] = 1;
    for (Value& slice : ys[y]) slice = ops::reshape(to.to, slice, one);
    carried.push_back(length == 0 ? ops::full(to.to, type, 0) : length == 1 ? ys[y][0] : ops::concat(to.to, ys[y], 0));
  }
  to.map_results(node, carried);
}

}  // namespace

Graph fold_branches(const Graph& g) {
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    if (is(node, ops::def::cond)) {
      if (const auto taken = known_bool(g, node.inputs[0])) {
        rewriter.map_results(i,
                             ops::inline_region(rewriter.to, *node.regions[*taken ? 0 : 1], rewriter[std::span(node.inputs).subspan(1)]));
        continue;
      }
    } else if (is(node, ops::def::while_loop)) {
      const Loop loop(g, i);
      const auto runs = known_bool(loop.regions[0], loop.regions[0].outputs[0]);
      if (loop.maximum == 0 || (runs && !*runs)) {  // it never runs
        std::vector<Value> results = rewriter[loop.carried];
        rewriter.stand_at(i);
        results.push_back(ops::scalar(rewriter.to, DType::i64, 0));
        rewriter.map_results(i, results);
        continue;
      }
    } else if (is(node, ops::def::scan)) {
      const Loop loop(g, i);
      if (unrolls(loop)) {
        unroll(g, i, loop, rewriter);
        continue;
      }
    }
    rewriter.copy(i);
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
