// Trace: the graph that a traced call is building. Each thread has a stack of traces; ops go to the innermost one.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"
#include "graph/ir/graph.h"

namespace lamina {

class Substitute;

class LAMINA_API Trace : public std::enable_shared_from_this<Trace> {
 public:
  Trace(std::string function, Device device);
  static Trace* current();  // null when ops run eagerly on this thread

  Tensor add_input(const TensorType& type, const std::string& name);
  std::vector<Tensor> add_node(const ir::OpDef& op, ir::AttrsRef attrs, std::span<const Tensor> inputs, CallSite at,
                               std::span<const ir::GraphRef> regions = {});
  // The value of a tensor in this trace. A symbolic tensor of this trace keeps its value; a small concrete tensor made by the body becomes
  // a constant. Any other tensor becomes a captured input, which callers pass along: tapes, vmap and callers see it as an operand.
  ir::Value value_of(const Tensor& t, CallSite at = {});
  void add_outputs(std::span<const Tensor> results, CallSite at);  // of the graph; each must have a value
  ir::Value captured_value(const Tensor& t) const;                 // of an outside tensor that was captured before; else invalid
  int resource_of(const Variable& v);
  Tensor read(const Variable& v, CallSite at);
  void assign(const Variable& v, const Tensor& value, CallSite at);
  // What inline_graph changes. Then nodes that neither the outputs nor an effect needs are left out.
  struct Changes {
    std::function<Tensor(int resource)> read;                             // the value in place of a read
    std::function<void(int node, std::vector<Tensor>& inputs)> operands;  // may replace the inputs of a node
  };
  // Inlines a traced graph as if its ops were called here; returns its outputs. `variables`: one per resource of g.
  std::vector<Tensor> inline_graph(const ir::Graph& g, std::span<const Tensor> inputs, std::span<const Variable> variables,
                                   CallSite at = {}, const Changes* changes = nullptr);
  // Computes a value eagerly now. It may depend only on constants and Variables; throws when it needs a traced input.
  Tensor evaluate_now(const Tensor& symbolic, CallSite at);
  Tensor symbol(ir::Value v) const;
  std::string name_of(ir::Value v) const;  // "layer1/matmul_2:0"

  ir::Graph graph;
  const std::string function;             // the traced function, for errors
  const Device device;                    // default device of its ops
  std::vector<Tensor> captures;           // tensors of the captured inputs, in order
  std::vector<ir::Value> capture_inputs;  // their values; they follow the arguments when the trace ends
  std::vector<Variable> variables;        // one per resource
  struct Created {
    Variable variable;
    SourceLine line;
  };
  std::vector<Created> created;  // Variables made while this trace was the innermost
  // A length known only from data: a symbol in the types of values, and the value (i64[]) that gives the length at run time.
  struct Length {
    std::string symbol;
    ir::Value count;
  };
  bool is_body = false;         // of a loop or branch
  bool by_rows = false;         // whether it is for the rows that all ranks have together (data_parallel.h)
  bool takes_lengths = false;   // whether lengths from data are allowed: for functions, not for bodies of loops
  std::vector<Length> lengths;  // none depends on a later one

 private:
  std::unordered_map<const TensorData*, ir::Value> captured_;
  std::vector<Tensor> constants_;  // keeps addresses in captured_ from being reused
  std::unordered_map<const VariableData*, int> resources_;
};

// Makes `trace` the innermost of this thread; with nullptr, ops run eagerly although something is traced outside. A trace sets a Substitute
// aside.
class LAMINA_API TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<Trace> trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Substitute* substitute_;
  std::shared_ptr<Trace> before_;
};
// Leaves the trace for its lifetime, to create state eagerly.
struct EagerScope : TraceScope {
  EagerScope() : TraceScope(nullptr) {}
};

// The error for a value used after its trace has ended.
Error finished_trace(const std::string& function, std::string where);

LAMINA_API bool executing_eagerly();
LAMINA_API Tensor tensor_of(const ir::Literal& literal);

// Prefixes the names of nodes traced by this thread: "layer1/".
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
