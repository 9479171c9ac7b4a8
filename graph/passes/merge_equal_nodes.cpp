#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

uint64_t mix(uint64_t hash, uint64_t word) { return (hash ^ word) * 0x9E3779B97F4A7C15ull ^ (hash >> 29); }

// Ops whose operands can be swapped without changing a bit.
bool commutes(const Node& node) {
  using namespace ops::def;
  return is(node, add) || is(node, mul) || is(node, equal) || is(node, not_equal) || is(node, logical_and) || is(node, logical_or);
}

// inputs: in the new graph; in order, if they can be swapped.
uint64_t hash_of(const Node& node, const std::vector<Value>& inputs) {
  uint64_t hash = mix(reinterpret_cast<uintptr_t>(node.op), inputs.size());
  for (Value v : inputs) hash = mix(hash, uint64_t(v.node) * 64 + uint64_t(v.result));
  for (const TensorType& type : node.types) {
    hash = mix(hash, uint64_t(type.dtype));
    for (Dim d : type.shape) hash = mix(hash, uint64_t(d.code()));
  }
  if (is(node, ops::def::constant) && node.attrs) {
    const ir::Literal& value = ir::attrs_of<ir::ConstantAttrs>(*node.attrs).value;
    if (value.bytes)
      hash = mix(hash, std::hash<std::string_view>()({reinterpret_cast<const char*>(value.bytes->data()), value.bytes->size()}));
  } else if (node.attrs && node.inputs.size() <= 1) {
    // Slices and the like: many nodes on one input that differ only in attributes.
    for (const auto& [name, text] : node.attrs->text()) hash = mix(hash, std::hash<std::string>()(text));
  }
  return hash;
}

bool same_attrs(const Node& a, const Node& b) { return a.attrs == b.attrs || (a.attrs && b.attrs && a.attrs->equals(*b.attrs)); }

bool same_regions(const Node& a, const Node& b) {
  return std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(), b.regions.end(),
                    [](const ir::GraphRef& x, const ir::GraphRef& y) { return x == y || (x && y && ir::equal(*x, *y)); });
}

}  // namespace

Graph merge_equal_nodes(const Graph& g) {
  Rewriter rewriter(g);
  std::unordered_multimap<uint64_t, int> seen;  // nodes of the new graph
  seen.reserve(size_t(g.size()));
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    if (!is_pure(node)) {
      rewriter.copy(i);
      continue;
    }
    std::vector<Value> inputs = rewriter[node.inputs], others;
    if (commutes(node)) std::sort(inputs.begin(), inputs.end());
    const uint64_t hash = hash_of(node, inputs);
    int equal = -1;
    for (auto [at, end] = seen.equal_range(hash); at != end && equal < 0; ++at) {
      const Node& other = rewriter.to[at->second];
      if (other.op != node.op || other.device != node.device || other.types != node.types) continue;
      others = other.inputs;
      if (commutes(other)) std::sort(others.begin(), others.end());
      if (others == inputs && same_attrs(other, node) && same_regions(other, node)) equal = at->second;
    }
    if (equal < 0)
      seen.emplace(hash, rewriter.copy(i).node);
    else
      rewriter.map_results(i, Value{equal, 0});
  }
  return rewriter.finish();
}

}  // namespace lamina::passes
