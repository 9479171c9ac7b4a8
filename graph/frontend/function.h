// Function: maps signatures to traced graphs. The C++ lm::function (typed_function.h) and the Python one are thin layers over it.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/frontend/concrete_function.h"

namespace lamina {

struct FunctionOptions {
  std::string name = "function";
  std::vector<std::string> argument_names = {};           // of the tensor arguments, for messages; may be shorter
  std::optional<std::vector<TensorSpec>> signature = {};  // accepted tensors; one graph serves all of them
  int trace_limit = 256;
  // Limit of temporary memory per call in bytes; 0: none. If the values do not fit, most of those kept for the gradient are recomputed with
  // the same bits, at the cost of about one more forward pass. If that does not fit either, the smallest plan found is used.
  int64_t memory_budget = 0;
  std::string advice = {};  // how callers avoid retraces, where that does not follow from what differs
};

// One call's arguments, flattened by the language layer.
struct Arguments {
  std::span<const Tensor> tensors;
  std::span<const Variable> variables;  // by reference; Variables of the same dtype and shape share a graph
  std::string_view statics;             // everything else that selects the graph: values, structure, types, identities
  CallSite at;
  std::optional<uint64_t> ranks = {};  // Function::ranks_of these, for a call of a function by_rows(); without it the newest graph is found
};

// An argument, or a part of one, in words. Explanations of retraces use it.
struct ArgumentPart {
  std::string name;  // "rate", "options['depth']"
  std::string text;  // "3", "a list of 2"; "a tensor" for each of Arguments::tensors, in their order
  std::string key;   // equal keys select the same graph
};

// The result of a tracing callback.
struct Traced {
  std::vector<Tensor> outputs;
  std::vector<ArgumentPart> arguments;  // of this call
  std::shared_ptr<void> structure;      // for the language layer: how to rebuild its result; see ConcreteFunction::structure()
};
// Runs the user's body once. `tensors` are symbolic; `variables` are stand-ins for the Variable arguments.
using TracedBody = std::function<Traced(std::span<const Tensor> tensors, std::span<const Variable> variables)>;

struct TraceRecord {
  std::string signature;  // "x f32[4,8], 2"
  std::string cause;      // why existing graphs did not fit: "x was f32[4,8], now f32[5,8]"; "" for the first
  std::string fix;        // how to avoid it: "give it the input_signature lm.TensorSpec([None, 8], lm.float32)"
  SourceLine line;        // of the call
  double microseconds = 0;
};

class LAMINA_API Function {
 public:
  explicit Function(FunctionOptions options = {});
  // A move copies: the Function that was moved from stays the same one.
  Function(const Function&) = default;
  Function& operator=(const Function&) = default;

  // The graph for these arguments, or null. Takes no lock and allocates no memory.
  ConcreteFunction* find(const Arguments& arguments) const;
  // The same, but traces `body` when there is no graph yet. One thread traces a Function at a time, others wait; the body runs once per
  // trace. If it throws, Variables made in it are forgotten and nothing is cached. No lock is held while the body runs.
  ConcreteFunction& get(const Arguments& arguments, const TracedBody& body) const;
  std::vector<Tensor> call(Arguments arguments, const TracedBody& body) const {
    if (by_rows()) arguments.ranks = ranks_of(arguments);
    ConcreteFunction* found = find(arguments);
    return (found ? *found : get(arguments, body)).call_matched(arguments.tensors, arguments.variables, arguments.at);
  }

  // Whether its graphs are for the rows that all ranks have together, because they call what data_parallel made. A call with the arguments
  // of before may then need another graph: where another rank has fewer rows than before.
  bool by_rows() const;
  // A hash of what all ranks pass; collective.
  uint64_t ranks_of(const Arguments& arguments) const;

  int trace_count() const;
  std::vector<TraceRecord> traces() const;
  std::vector<std::shared_ptr<ConcreteFunction>> concrete_functions() const;
  const FunctionOptions& options() const;
  std::string str() const;  // <lm.Function train_step, 2 graphs>
  bool same(const Function& other) const { return data_ == other.data_; }

 private:
  struct Entry;
  struct Data;
  std::shared_ptr<Data> data_;
};

// For language bindings: called before a Variable is judged unreferenced (Python collects reference cycles in it).
LAMINA_API void set_garbage_collector(void (*collect)());
// Called after each retrace of a Function, with its name and the record.
LAMINA_API void set_retrace_observer(void (*observe)(const std::string& name, int traces, const TraceRecord& record));

}  // namespace lamina
