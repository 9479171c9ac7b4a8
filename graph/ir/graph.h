// Graph: typed nodes in program order. Every node comes after its inputs; nodes with effects on one resource run in this order.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "runtime/core/source_line.h"
#include "runtime/device/device.h"

namespace lamina::ir {

struct Node {
  const OpDef* op = nullptr;
  AttrsRef attrs;
  std::vector<Value> inputs;
  std::vector<TensorType> types;  // one per result
  std::vector<GraphRef> regions;  // of cond, while_loop, scan, calls, fused groups
  SourceLine line;                // the user's
  std::string scope;              // "layer1/": prefix of its printed name
  std::optional<Device> device;   // the user's choice; empty: the planner decides
};

// A node in a graph: never changed, and shared by the graphs that have it unchanged in the same place.
using NodeRef = std::shared_ptr<const Node>;

// The nodes of a graph, to iterate over.
class Nodes {
 public:
  class iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Node;
    using difference_type = std::ptrdiff_t;
    using pointer = const Node*;
    using reference = const Node&;
    iterator() = default;
    explicit iterator(const NodeRef* at) : at_(at) {}
    const Node& operator*() const { return **at_; }
    const Node* operator->() const { return at_->get(); }
    iterator& operator++() { return ++at_, *this; }
    iterator operator++(int) { return iterator(at_++); }
    bool operator==(const iterator&) const = default;

   private:
    const NodeRef* at_ = nullptr;
  };
  explicit Nodes(const std::vector<NodeRef>& nodes) : begin_(nodes.data()), end_(nodes.data() + nodes.size()) {}
  iterator begin() const { return iterator(begin_); }
  iterator end() const { return iterator(end_); }

 private:
  const NodeRef *begin_, *end_;
};

// A Variable that the graph reads or writes. Nodes name it by its index in the list.
struct Resource {
  std::string name;
  TensorType type;
  bool operator==(const Resource&) const = default;
};

class LAMINA_API Graph {
 public:
  // Properties of a node besides its op and inputs.
  struct Place {
    SourceLine line;
    std::string scope;
    std::optional<Device> device;
  };

  // Adds a node and returns its first result; the op's shape rule gives its types. Throws Errors placed at the user's line.
  Value add(const OpDef& op, AttrsRef attrs, std::vector<Value> inputs, std::vector<GraphRef> regions = {});
  Value add(const OpDef& op, std::vector<Value> operands) { return add(op, nullptr, std::move(operands)); }
  // Copies a node of another graph with new inputs; attributes, regions and place are kept.
  Value copy(const Node& node, std::vector<Value> inputs);
  Value add_input(const TensorType& type, const std::string& name = "");
  Value add_constant(Literal value);
  int add_resource(Resource resource);

  const Node& operator[](int node) const { return *nodes_.at(size_t(node)); }
  const Node& operator[](Value v) const { return *nodes_.at(size_t(v.node)); }
  const TensorType& type(Value v) const { return (*this)[v].types.at(size_t(v.result)); }
  int size() const { return int(nodes_.size()); }
  Nodes nodes() const { return Nodes(nodes_); }
  void truncate(int size);  // removes the last nodes: undoes a failed trace

  std::vector<Value> inputs;  // the graph's parameters, in order
  std::vector<Value> outputs;
  std::vector<Resource> resources;
  Place place;  // given to each node that add() makes from now on

 private:
  friend class Rewriter;
  Value append(Node node);  // infers its types
  std::vector<NodeRef> nodes_;
};

struct InputAttrs {
  int64_t index = 0;
  TensorType type;
  std::string name;
  static constexpr auto fields =
      std::tuple{field("index", &InputAttrs::index), field("type", &InputAttrs::type), field("name", &InputAttrs::name)};
};
struct ConstantAttrs {
  Literal value;
  static constexpr auto fields = std::tuple{field("value", &ConstantAttrs::value)};
};
// Attributes of read and assign: the resource and its type.
struct ResourceAttrs {
  int64_t resource = 0;
  TensorType type;
  static constexpr auto fields = std::tuple{field("resource", &ResourceAttrs::resource), field("type", &ResourceAttrs::type)};
};

// The value of a constant node, or null.
LAMINA_API const Literal* constant_value(const Graph& g, Value v);
// The resource a node reads or writes, or -1.
LAMINA_API int resource_of(const Node& node);
// Whether the node, or one in its regions, prints or checks.
LAMINA_API bool has_host_effect(const Node& node);
// Whether the node, or one in its regions, is a collective of ranks.
LAMINA_API bool has_collective(const Node& node);
// Whether a node, or a node in its regions, reads, writes, prints, checks or is a collective.
LAMINA_API bool has_effects(const Node& node);
// The graph without nodes that print or check, in regions too. Recomputation for a gradient uses it, so that no effect happens twice.
LAMINA_API Graph without_host_effects(const Graph& g);
// The value of every symbol in the graph's input types, from the types given. Throws signature with input, expected and actual type.
LAMINA_API DimBindings bind_dims(const Graph& g, std::span<const TensorType> inputs);
// The same graph with symbols replaced by these lengths.
LAMINA_API Graph specialize(const Graph& g, const DimBindings& bindings);

// With scopes: also each node's, as a saved program has them.
LAMINA_API std::string print(const Graph& g, bool scopes = false);
// What print() prints. The text may be hostile: throws an Error, with the line, for what is wrong, also for what a shape rule refuses.
LAMINA_API Graph parse(std::string_view text);
LAMINA_API void verify(const Graph& g);    // throws internal on the first broken rule
LAMINA_API uint64_t hash(const Graph& g);  // of the structure: ignores lines, scopes and names
LAMINA_API bool equal(const Graph& a, const Graph& b);

}  // namespace lamina::ir
