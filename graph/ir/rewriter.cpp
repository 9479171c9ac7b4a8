#include "graph/ir/rewriter.h"

#include <algorithm>

#include "runtime/core/error.h"

namespace lamina::ir {

std::vector<int> number_values(const Graph& g) {
  std::vector<int> first;
  first.reserve(size_t(g.size()) + 1);
  int values = 0;
  for (const Node& node : g.nodes()) {
    first.push_back(values);
    values += std::max(1, int(node.types.size()));
  }
  first.push_back(values);
  return first;
}

std::vector<char> needed_nodes(const Graph& g, std::span<const Value> outputs) {
  std::vector<char> needed(size_t(g.size()));
  for (Value v : outputs) needed[size_t(v.node)] = true;
  for (int n = g.size() - 1; n >= 0; --n)
    if (needed[size_t(n)] || has_effects(g[n])) {
      needed[size_t(n)] = true;
      for (Value v : g[n].inputs) needed[size_t(v.node)] = true;
    }
  return needed;
}

Rewriter::Rewriter(const Graph& g) : Rewriter(g, own_) { to.resources = g.resources; }
Rewriter::Rewriter(const Graph& g, Graph& into) : from(g), to(into), first_value_(number_values(g)), now_(size_t(first_value_.back())) {}

Value Rewriter::operator[](Value old) const {
  const Value now = now_[index(old)];
  if (!now.valid()) internal_error(cat("a pass uses value ", old.node, ".", old.result, " before it has made it"));
  return now;
}

std::vector<Value> Rewriter::operator[](std::span<const Value> old) const {
  std::vector<Value> out;
  out.reserve(old.size());
  for (Value v : old) out.push_back((*this)[v]);
  return out;
}

void Rewriter::map_results(int node, std::span<const Value> now) {
  for (size_t r = 0; r < now.size(); ++r) map({node, int(r)}, now[r]);
}

void Rewriter::map_results(int node, Value first) {
  for (int i = first_value_[size_t(node)], r = 0; i < first_value_[size_t(node) + 1]; ++i, ++r)
    now_[size_t(i)] = {first.node, first.result + r};
}

// Inputs of the same types give results of the same types. A node whose inputs have kept their numbers, too, is shared.
Value Rewriter::copy(int node) {
  const Node& old = from[node];
  std::vector<Value> inputs = (*this)[old.inputs];
  for (size_t i = 0; i < inputs.size(); ++i)
    if (&to[inputs[i]] != &from[old.inputs[i]] && !(to.type(inputs[i]) == from.type(old.inputs[i]))) return copy(node, old);
  if (inputs == old.inputs) {
    to.nodes_.push_back(from.nodes_[size_t(node)]);
  } else {
    Node now = old;
    now.inputs = std::move(inputs);
    to.nodes_.push_back(std::make_shared<const Node>(std::move(now)));
  }
  map_results(node, {to.size() - 1, 0});
  return {to.size() - 1, 0};
}

Value Rewriter::copy(int node, const Node& changed) {
  const Value first = to.copy(changed, (*this)[changed.inputs]);
  map_results(node, first);
  return first;
}

void Rewriter::stand_at(int node) { to.place = {from[node].line, from[node].scope, from[node].device}; }

Graph Rewriter::finish() {
  to.place = from.place;
  to.inputs = (*this)[from.inputs];
  to.outputs = (*this)[from.outputs];
  return std::move(to);
}

}  // namespace lamina::ir
