// Which lengths of a traced function's tensors are open, and which of these are equal.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/frontend/concrete_function.h"
#include "graph/frontend/function.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

// relax_shapes: calls that differ only in lengths share one graph for all lengths, from the second length on. Lengths that were equal in
// all calls are one.
struct Relaxed {
  std::string key;
  std::vector<TensorType> types;  // types seen so far; lengths that differed are open
  std::optional<Function> function;
  int exact = 1;                          // of a model: how many of the types have a graph of their own
  bool refused = false;                   // the function cannot be traced with more open lengths than these types have
  std::vector<TensorType> before = {};    // the types before the latest became open
  std::optional<Function> narrower = {};  // for these
};
// The one to trace a call with, which `all` keeps; null when the call gets a graph of its own from `exact`. of_model: so do the first
// calls. Adds up the traces of functions that a wider one replaces.
Relaxed* relax(std::vector<Relaxed>& all, const std::string& key, std::span<const Tensor> given, const Function& exact, bool of_model,
               int& retired_traces);
// The function that relax() gave cannot be traced. Calls that it was for get graphs of their own from now on.
void refuse(std::vector<Relaxed>& all, const Function& function, int& retired_traces);

// Two lengths that a signature leaves open and that meet in an op are taken to be equal. After an error of a trace whose text names two
// such lengths, gives these one name in the signature. False when there are no two, or the given tensors differ in them.
bool make_equal(std::vector<TensorSpec>& signature, std::string_view error, std::span<const Tensor> given);

// Traces with the input signature. Open lengths that meet in an op become one, and the function has that signature from then on.
// `function` may become another one, whose signature is narrower; the one before is then kept in `replaced`.
template <class Trace>
std::shared_ptr<ConcreteFunction> trace_with_equal_lengths(Function& function, std::vector<Function>& replaced,
                                                           std::span<const Tensor> tensors, const Trace& traced) {
  const Function as_given = function;
  for (;;) {
    const Function used = function;
    std::string error;
    std::exception_ptr thrown;
    try {
      return traced(used);
    } catch (const Error& e) {
      error = e.what(), thrown = std::current_exception();
    } catch (const nb::python_error& e) {
      if (nb::isinstance(e.value(), nb::module_::import_("lamina.errors").attr("Error"))) error = nb::cast<std::string>(nb::str(e.value()));
      thrown = std::current_exception();
    }
    if (!function.same(used)) continue;  // another thread has just found which are equal
    FunctionOptions options = used.options();
    const bool again = !error.empty() && make_equal(*options.signature, error, tensors);
    if (again && used.trace_count()) replaced.push_back(used);
    function = again ? Function(std::move(options)) : as_given;
    if (!again) std::rethrow_exception(thrown);
  }
}

}  // namespace lamina::python
