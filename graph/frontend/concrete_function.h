// ConcreteFunction: one traced graph and its plans, callable. Plans are made per concrete shape; the 64 most recently used are kept.
#pragma once
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/compile/planner.h"
#include "graph/frontend/explanation.h"
#include "graph/frontend/tensor.h"
#include "graph/frontend/trace.h"
#include "graph/frontend/variable.h"
#include "runtime/core/mutex.h"
#include "runtime/exec/executor.h"

namespace lamina {
// The dtype and shape that an argument must have. Dimensions may be unknown.
struct TensorSpec {
  Shape shape = {};
  DType dtype = DType::f32;
  std::string name = {};
  LAMINA_API std::string str() const;  // TensorSpec(shape=(None, 784), dtype=float32)
};
// An unknown dimension, independent of all others. Dimensions with the same symbol, Dim::symbol("n"), must be equal.
LAMINA_API Dim any_length();
// The symbol that a trace has for an axis of an argument whose length the signature leaves open; `depth` counts the enclosing traces.
LAMINA_API Dim open_length(int depth, size_t argument, size_t axis);
bool is_open_length(Dim d);
// A call with a Tensor that has no value.
Error empty_argument(const std::string& function, size_t argument, const std::string& name, CallSite at);

// The nodes of a graph by op name. Constants are "constant".
struct Inspection {
  std::vector<std::string> traced;     // as traced
  std::vector<std::string> optimized;  // after the passes, before elementwise fusion and sections
};

class LAMINA_API ConcreteFunction : public std::enable_shared_from_this<ConcreteFunction> {
 public:
  // From a finished trace, whose graph has its outputs. `arguments`: how many of the graph's inputs are arguments (captures follow them).
  // argument_resources[i]: the resource of Variable argument i, or -1 when the graph does not use it.
  ConcreteFunction(std::shared_ptr<Trace> trace, std::string name, size_t arguments, std::vector<int> argument_resources,
                   std::shared_ptr<void> structure, double trace_microseconds);
  ~ConcreteFunction();

  // Runs the graph or, while tracing, inlines it. Throws signature when an argument does not fit, with its name and the expected and actual
  // type. Thread-safe.
  std::vector<Tensor> call(std::span<const Tensor> arguments, std::span<const Variable> variables = {}, CallSite at = {});
  // The same without checks, for callers that have already matched the signature.
  std::vector<Tensor> call_matched(std::span<const Tensor> arguments, std::span<const Variable> variables, CallSite at = {});

  // Does what comes before a call's first kernel: plans for its lengths, which are open. Throws where the graph does not fit them.
  void prepare(std::span<const Tensor> arguments, std::span<const Variable> variables);
  // Inlines the graph into this thread's trace, with changes.
  std::vector<Tensor> inline_changed(std::span<const Tensor> arguments, const Trace::Changes& changes, CallSite at = {});

  const std::string& name() const { return name_; }
  std::vector<TensorSpec> inputs() const;
  std::vector<TensorSpec> outputs() const;
  const ir::Graph& graph() const { return graph_; }  // as traced
  // A Python loop that indexes a tensor: x[i] for very many i, each an op of its own.
  struct UnrolledLoop {
    SourceLine line;
    int parts;  // at least so many
  };
  std::optional<UnrolledLoop> unrolled_loop() const;
  const ir::Graph& optimized_graph();
  const std::vector<Variable>& variables() const { return variables_; }
  std::vector<Variable> assigned() const;  // those that the graph writes, outside of loops and branches
  const std::vector<Tensor>& captures() const { return captures_; }
  // Per Variable argument: the place of its stand-in in variables(), or -1 when the graph does not use it.
  const std::vector<int>& argument_resources() const { return argument_resources_; }
  const std::vector<Trace::Length>& lengths() const { return traced_lengths_; }
  // Throws signature, naming the argument, when these cannot be passed.
  void check(std::span<const Tensor> arguments, std::span<const Variable> variables) const;
  const std::shared_ptr<void>& structure() const { return structure_; }  // the tracing callback's Traced::structure
  Inspection inspect();
  // The graph, the passes and their times, fused groups, the program, and the times of tracing, compiling and running.
  std::string explain() { return explanation().text; }
  // explain() as text and data, for the most recently used plan, if any. Given a device: for a plan made just for this, as if the device
  // were there. `lengths`: types of the arguments, needed where dimensions are open; throws state where they are missing.
  Explanation explanation(std::optional<Device> device = {}, std::span<const TensorType> lengths = {});
  bool by_rows() const { return by_rows_; }  // Trace::by_rows
  std::string str() const;                   // name, inputs, outputs, captures
  int plan_count() const;
  int64_t temporary_bytes();                // of a call, by the plan used last; 0 before the first call
  std::vector<std::string> instructions();  // of the plan used last, by name; empty before the first call

 private:
  friend class Function;
  struct Plan;
  struct Call {
    std::span<const Tensor> arguments;
    std::span<const Variable> variables;
    std::vector<int64_t> lengths;  // lengths known only from data
  };
  std::vector<Tensor> inlined(Trace& trace, std::span<const Tensor> arguments, std::span<const Variable> variables, CallSite at,
                              const Trace::Changes* changes = nullptr);
  ir::Graph specialized(const DimBindings& lengths) const;  // the traced graph, op by op
  std::shared_ptr<Plan> plan_for(const Call& call);
  std::shared_ptr<Plan> make_plan(const Call& call);  // mutex_ must be held
  DimBindings bindings(const Call& call) const;
  compile::Planned planned_for(Device device, std::span<const TensorType> lengths);  // mutex_ must be held
  void find_lengths(Call& call);
  void add_lengths(const Trace& trace);
  std::vector<Tensor> run(Plan& plan, std::span<const Tensor> arguments, std::span<const Variable> variables);
  std::vector<Tensor> run_planned(const Call& call);
  std::vector<Variable> bound(std::span<const Variable> arguments) const;                              // one per resource, for this call
  std::vector<Tensor> replay(std::span<const Tensor> arguments, std::span<const Variable> variables);  // eager, op by op: for tapes
  bool tape_wants(std::span<const Tensor> arguments, std::span<const Variable> variables) const;

  std::string name_;
  Device device_;
  bool by_rows_, has_collectives_;
  ir::Graph graph_;
  size_t arguments_;
  std::vector<Variable> variables_;  // one per resource; for an argument the stand-in it was traced with
  std::vector<int> argument_resources_;
  std::vector<Device> input_devices_, variable_devices_;
  std::vector<Tensor> captures_;
  std::shared_ptr<void> structure_;
  std::vector<std::pair<int, int>> open_dims_;  // argument and axis of each unknown dimension
  struct Length {
    std::string symbol;
    std::shared_ptr<ConcreteFunction> count;  // computes the length from the same arguments and, if needed, earlier lengths
  };
  std::vector<Length> lengths_;
  std::vector<Trace::Length> traced_lengths_;
  double trace_microseconds_;
  int64_t memory_budget_ = 0;  // FunctionOptions::memory_budget

  Mutex mutex_;  // held while a plan is made
  compile::Planner planner_{graph_};
  std::atomic<Plan*> only_plan_{nullptr};  // used when no dimension is open; never replaced then
  // Plans by lengths, and on a GPU also by which arguments are on the host. The most recently used comes first.
  std::list<std::pair<std::vector<int64_t>, std::shared_ptr<Plan>>> plans_;
};

}  // namespace lamina
