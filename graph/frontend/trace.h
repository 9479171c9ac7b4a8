// Trace: the graph that one traced call is building. Each thread has a stack of them; ops go to the innermost.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"
#include "graph/ir/graph.h"

namespace lamina {

class LAMINA_API Trace : public std::enable_shared_from_this<Trace> {
 public:
  Trace(std::string function, Device device);
  static Trace* current();  // null when ops run eagerly on this thread

  Tensor add_input(const TensorType& type, const std::string& name);
  std::vector<Tensor> add_node(const ir::OpDef& op, ir::AttrsRef attrs, std::span<const Tensor> inputs, CallSite at,
                               std::span<const ir::GraphRef> regions = {});
  // This trace's value for a tensor: its own; a small concrete one that its own body made becomes a constant. Every other is from outside
  // and becomes a captured input, which calls pass along: tapes, vmap and callers see it as an operand.
  ir::Value value_of(const Tensor& t, CallSite at = {});
  ir::Value captured_value(const Tensor& t) const;  // of a tensor from outside that is used already; else not valid
  int resource_of(const Variable& v);
  Tensor read(const Variable& v, CallSite at);
  void assign(const Variable& v, const Tensor& value, CallSite at);
  // Adds a traced graph's nodes as if their ops were called here. Returns its outputs.
  // `variables`: one per resource of g.
  std::vector<Tensor> inline_graph(const ir::Graph& g, std::span<const Tensor> inputs, std::span<const Variable> variables,
                                   CallSite at = {});
  // A value computed from nothing but constants and Variables, computed now, eagerly. Throws when a traced input is needed.
  Tensor evaluate_now(const Tensor& symbolic, CallSite at);
  Tensor symbol(ir::Value v) const;
  std::string name_of(ir::Value v) const;  // "layer1/matmul_2:0"

  ir::Graph graph;
  const std::string function;             // what is traced, for errors
  const Device device;                    // where its ops run unless they say otherwise
  std::vector<Tensor> captures;           // of the captured inputs, in order
  std::vector<ir::Value> capture_inputs;  // their values; they follow the arguments when the trace ends
  std::vector<Variable> variables;        // one per resource
  struct Created {
    Variable variable;
    SourceLine line;
  };
  std::vector<Created> created;  // Variables made while this was the innermost trace
  // A length that only the data tell: a symbol in the types of the graph's values, and the value (i64[]) that says what it is when it runs.
  struct Length {
    std::string symbol;
    ir::Value count;
  };
  bool takes_lengths = false;   // whether its graph may have such lengths: of a function it may, of a loop's body not
  std::vector<Length> lengths;  // each computed without the later ones

 private:
  std::unordered_map<const TensorData*, ir::Value> captured_;
  std::vector<Tensor> constants_;  // keeps the addresses in captured_ from being reused
  std::unordered_map<const VariableData*, int> resources_;
};

// Makes `trace` the innermost of this thread; nullptr: ops run eagerly although something is traced around them.
class LAMINA_API TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<Trace> trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  std::shared_ptr<Trace> before_;
};
// Lifts what follows out of the trace: state is made in it.
struct EagerScope : TraceScope {
  EagerScope() : TraceScope(nullptr) {}
};

// The error for a value that left the trace that made it.
Error finished_trace(const std::string& function, std::string where);

LAMINA_API bool executing_eagerly();
LAMINA_API Tensor tensor_of(const ir::Literal& literal);

// Prefixes the names of the nodes that this thread traces: "layer1/".
class LAMINA_API NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  static const std::string& current();

 private:
  size_t before_;
};

}  // namespace lamina
