// Function: from signatures to traced graphs. The C++ lm::function (typed_function.h) and Python's are thin layers over it.
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
  std::vector<std::string> argument_names;           // of the tensor arguments, for errors and printing; may be shorter
  std::optional<std::vector<TensorSpec>> signature;  // what tensors are accepted; one graph for all of them
  int trace_limit = 256;
  // Bytes of temporary memory that a call may take. When its values do not fit, most of those that wait for the gradient are computed again
  // when it needs them, with the same bits: about one more forward pass. What cannot be made to fit takes as little as was found. 0: no
  // limit.
  int64_t memory_budget = 0;
};

// One call's arguments, flattened by the language layer.
struct Arguments {
  std::span<const Tensor> tensors;
  std::span<const Variable> variables;  // by reference: another Variable of the same dtype and shape shares the graph
  std::string_view statics;             // everything else that the trace depends on: values, structure, types, identities
  CallSite at;
};

// An argument, or a part of one, in words: what a retrace is explained with.
struct ArgumentPart {
  std::string name;  // "rate", "options['depth']"
  std::string text;  // "3", "a list of 2"; "a tensor" for each of Arguments::tensors, in their order
  std::string key;   // equal when it selects the same graph
};

// What a tracing callback gives back.
struct Traced {
  std::vector<Tensor> outputs;
  std::vector<ArgumentPart> arguments;  // of this call
  std::shared_ptr<void> structure;      // for the language layer: how to rebuild its result; ConcreteFunction::structure()
};
// Runs the user's body once. `tensors` are symbolic; `variables` are stand-ins for the Variable arguments.
using TracedBody = std::function<Traced(std::span<const Tensor> tensors, std::span<const Variable> variables)>;

struct TraceRecord {
  std::string signature;  // "x f32[4,8], 2"
  std::string cause;      // why it was traced although there were graphs: "x was f32[4,8], now f32[5,8]"; "" for the first
  std::string fix;        // what to write so that it is not: "give it the input_signature lm.TensorSpec([None, 8], lm.float32)"
  SourceLine line;        // of the call
  double microseconds = 0;
};

class LAMINA_API Function {
 public:
  explicit Function(FunctionOptions options = {});
  // The graph for these arguments, or null. No lock is taken and no memory allocated.
  ConcreteFunction* find(const Arguments& arguments) const;
  // The same, tracing `body` when there is none. One thread traces a Function at a time, others wait; the body runs once per trace. When it
  // throws, Variables made in it are forgotten and nothing is cached. Never holds a lock while the body runs.
  ConcreteFunction& get(const Arguments& arguments, const TracedBody& body);
  std::vector<Tensor> call(const Arguments& arguments, const TracedBody& body) {
    ConcreteFunction* found = find(arguments);
    return (found ? *found : get(arguments, body)).call_matched(arguments.tensors, arguments.variables, arguments.at);
  }

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

// For language bindings: runs before a Variable is judged to be held by nobody (Python collects its cycles in it).
LAMINA_API void set_garbage_collector(void (*collect)());
// Told about each trace after the first of a Function, with its name and the record.
LAMINA_API void set_retrace_observer(void (*observe)(const std::string& name, int traces, const TraceRecord& record));

}  // namespace lamina
