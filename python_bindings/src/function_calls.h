// Arguments of calls of lm.Function and its methods; who looks at calls before they run.
#pragma once
#include <optional>
#include <vector>

#include "python_bindings/src/call_binding.h"
#include "python_bindings/src/function.h"

namespace lamina::python {

struct Call {
  PyObject* const* args;
  Py_ssize_t count;  // positional
  PyObject* names;   // of the keyword arguments, which follow; may be null
};

// A call's arguments with a method's instance before them: Python passes it in calls of the method only, not in calls of its members.
class WithInstance {
 public:
  // The weak reference is invalid for what is no method. An instance that is given stays alone if there is no room for two.
  WithInstance(const nb::object& reference, const CallBinding& binding, const Call& given);
  WithInstance(const WithInstance&) = delete;
  WithInstance& operator=(const WithInstance&) = delete;
  Call call;

 private:
  nb::object instance_;
  std::vector<PyObject*> arguments_;
};

// explain(...) has arguments device=, count= and hosts= of its own, unless the function has one of that name.
class ExplainCall {
 public:
  ExplainCall(const CallBinding& binding, const Call& given);
  Call rest() const { return {arguments_.data(), positional_, names_.ptr()}; }  // the function's own arguments
  bool is_empty() const { return arguments_.empty(); }
  std::optional<Device> device() const;
  bool has_ranks() const { return own_[1].is_valid() || own_[2].is_valid(); }
  nb::object explain_ranks(nb::handle function) const;  // the lm.Explanation of a rank's program, with what all ranks take

 private:
  std::vector<PyObject*> arguments_;
  Py_ssize_t positional_;
  nb::object names_, own_[3];
};

// For `python -m lamina plan`: the calls that need a look at more than their tensors, the first one of every function among them.
void look_at_call(nb::handle function, const Call& call, const std::shared_ptr<ConcreteFunction>& graph);
void bind_function_calls(nb::module_& m);

}  // namespace lamina::python
