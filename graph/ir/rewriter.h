// Rewriter: copies a graph node by node and maps old values to new ones. All code that makes one graph from another uses it.
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::ir {

// For each node the number of its first result; at the end the number of all results. A node without results counts as one.
std::vector<int> number_values(const Graph& g);

// For each node: whether one of `outputs` or an effect needs it.
std::vector<char> needed_nodes(const Graph& g, std::span<const Value> outputs);

// The caller visits the nodes of `from` in an order that respects effects, and copies or replaces each of them.
class LAMINA_API Rewriter {
 public:
  explicit Rewriter(const Graph& from);      // into a new graph with the resources of `from`
  Rewriter(const Graph& from, Graph& into);  // appends to `into`; the caller maps inputs and sets outputs
  Rewriter(const Rewriter&) = delete;

 private:
  Graph own_;

 public:
  const Graph& from;
  Graph& to;

  Value operator[](Value old) const;  // the new value for an old one
  std::vector<Value> operator[](std::span<const Value> old) const;
  bool mapped(Value old) const { return now_[index(old)].valid(); }
  bool mapped(int node) const { return mapped({node, 0}); }
  void map(Value old, Value now) { now_[index(old)] = now; }
  // Maps the results of a node, or of the node whose first result is `first`, to new values.
  void map_results(int node, std::span<const Value> now);
  void map_results(int node, Value first);
  // Copies a node, or a changed form of it, with mapped inputs. Maps its results and returns the first.
  Value copy(int node);
  Value copy(int node, const Node& changed);
  // Nodes added to `to` from now on get this node's line, scope and device.
  void stand_at(int node);
  // Returns the new graph, with inputs and outputs in the old order.
  Graph finish();

 private:
  size_t index(Value v) const { return size_t(first_value_[size_t(v.node)] + v.result); }
  std::vector<int> first_value_;
  std::vector<Value> now_;
};

}  // namespace lamina::ir
