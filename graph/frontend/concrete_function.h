// ConcreteFunction: one traced graph and its plans, callable. A plan is made per concrete shape and kept, the 64 used last.
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
// What an argument must be: a dtype and a shape whose dimensions may be unknown.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
  std::string name;
  LAMINA_API std::string str() const;  // TensorSpec(shape=(None, 784), dtype=float32)
};
// A dimension of a TensorSpec that takes any length, each on its own. Dim::symbol("n") instead takes one length wherever it stands.
LAMINA_API Dim any_length();

// Which nodes a graph has, by op name: constants are "constant".
struct Inspection {
  std::vector<std::string> traced;     // as traced
  std::vector<std::string> optimized;  // after the passes, before elementwise fusion and sections
};

class LAMINA_API ConcreteFunction : public std::enable_shared_from_this<ConcreteFunction> {
 public:
  // From a trace whose graph has its outputs. `arguments`: how many of the graph's inputs are arguments (captures follow them);
  // argument_resources[i]: which resource Variable argument i is, or -1 when the graph does not use it.
  ConcreteFunction(std::shared_ptr<Trace> trace, std::string name, size_t arguments, std::vector<int> argument_resources,
                   std::shared_ptr<void> structure, double trace_microseconds);
  ~ConcreteFunction();

  // Runs the graph, or, while something is traced, adds its nodes there. The arguments must fit: throws signature naming the argument, what
  // is wanted and what was given. Safe from many threads at once.
  std::vector<Tensor> call(std::span<const Tensor> arguments, std::span<const Variable> variables = {}, CallSite at = {});
  // The same without checks, for callers that have matched the signature.
  std::vector<Tensor> call_matched(std::span<const Tensor> arguments, std::span<const Variable> variables, CallSite at = {});

  const std::string& name() const { return name_; }
  std::vector<TensorSpec> inputs() const;
  std::vector<TensorSpec> outputs() const;
  const ir::Graph& graph() const { return graph_; }  // as traced
  const ir::Graph& optimized_graph();
  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<Tensor>& captures() const { return captures_; }
  const std::shared_ptr<void>& structure() const { return structure_; }  // what the tracing callback returned beside the outputs
  Inspection inspect();
  // The graph, the passes with their times, fused groups, the program, and the times of tracing, compiling and running.
  std::string explain() { return explanation().text; }
  // The same with data beside it: of the plan used last, if there is one; or, given a device, of a plan for it that is made for this alone,
  // as if everything were there. `lengths`: types of the arguments, needed where dimensions are open. Throws state where they are missing.
  Explanation explanation(std::optional<Device> device = {}, std::span<const TensorType> lengths = {});
  std::string str() const;  // name, inputs, outputs, captures
  int plan_count() const;
  int64_t temporary_bytes();                // that a call takes, by the plan used last; 0 before the first call
  std::vector<std::string> instructions();  // of the plan used last, by name; empty before the first call

 private:
  friend class Function;
  struct Plan;
  struct Call {
    std::span<const Tensor> arguments;
    std::span<const Variable> variables;
    std::vector<int64_t> lengths;  // those that only the data tell
  };
  std::shared_ptr<Plan> plan_for(const Call& call);
  std::shared_ptr<Plan> make_plan(const Call& call);  // under mutex_
  DimBindings bindings(const Call& call) const;
  compile::Planned planned_for(Device device, std::span<const TensorType> lengths);  // under mutex_
  void find_lengths(Call& call);
  void add_lengths(const Trace& trace);
  std::vector<Tensor> run(Plan& plan, std::span<const Tensor> arguments, std::span<const Variable> variables);
  std::vector<Tensor> run_planned(const Call& call);
  std::vector<Variable> bound(std::span<const Variable> arguments) const;                              // one per resource, in this call
  std::vector<Tensor> replay(std::span<const Tensor> arguments, std::span<const Variable> variables);  // op by op, for tapes
  bool tape_wants(std::span<const Tensor> arguments, std::span<const Variable> variables) const;
  void check(std::span<const Tensor> arguments, std::span<const Variable> variables) const;

  std::string name_;
  Device device_;
  ir::Graph graph_;
  size_t arguments_;
  std::vector<Variable> variables_;  // one per resource; of an argument: the one it was traced with, a stand-in
  std::vector<int> argument_resources_;
  std::vector<Device> input_devices_, variable_devices_;
  std::vector<Tensor> captures_;
  std::shared_ptr<void> structure_;
  std::vector<std::pair<int, int>> open_dims_;  // argument and axis of each unknown dimension
  struct Length {
    std::string symbol;
    std::shared_ptr<ConcreteFunction> count;  // from the same arguments; it may need the lengths before
  };
  std::vector<Length> lengths_;
  double trace_microseconds_;
  int64_t memory_budget_ = 0;  // FunctionOptions::memory_budget

  Mutex mutex_;  // making plans
  compile::Planner planner_{graph_};
  std::atomic<Plan*> only_plan_{nullptr};  // when no dimension is open; it then lives as long as this
  // By lengths, and on a GPU for each argument whether it is on the host. The one used last is first.
  std::list<std::pair<std::vector<int64_t>, std::shared_ptr<Plan>>> plans_;
};

}  // namespace lamina
