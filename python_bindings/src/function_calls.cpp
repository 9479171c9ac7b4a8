#include "python_bindings/src/function_calls.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <utility>

#include "graph/frontend/trace.h"

namespace lamina::python {
namespace {

constexpr const char* kOwn[] = {"device", "count", "hosts"};

PyObject* before_call = nullptr;  // look(function, args, kwargs, graph); null: nobody looks

nb::tuple positional_of(const Call& call) {
  nb::list out;
  for (Py_ssize_t i = 0; i < call.count; ++i) out.append(nb::handle(call.args[i]));
  return nb::tuple(out);
}
nb::dict named_of(const Call& call) {
  nb::dict out;
  for (Py_ssize_t i = 0; call.names && i < PyTuple_GET_SIZE(call.names); ++i)
    out[nb::handle(PyTuple_GET_ITEM(call.names, i))] = nb::handle(call.args[call.count + i]);
  return out;
}

}  // namespace

WithInstance::WithInstance(const nb::object& reference, const CallBinding& binding, const Call& given) : call(given) {
  if (!reference.is_valid()) return;
  instance_ = reference();
  const size_t count = size_t(given.count + (given.names ? PyTuple_GET_SIZE(given.names) : 0));
  const bool is_given = given.count > 0 && given.args[0] == instance_.ptr() && !binding.has_room(count + 1);
  if (instance_.is_none() || is_given) return;
  arguments_.assign(given.args, given.args + count);
  arguments_.insert(arguments_.begin(), instance_.ptr());
  call = {arguments_.data(), given.count + 1, given.names};
}

ExplainCall::ExplainCall(const CallBinding& binding, const Call& given)
    : arguments_(given.args, given.args + given.count), positional_(given.count) {
  nb::list others;
  for (Py_ssize_t i = 0; given.names && i < PyTuple_GET_SIZE(given.names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(given.names, i);
    const auto found =
        std::find_if(std::begin(kOwn), std::end(kOwn), [&](const char* k) { return PyUnicode_CompareWithASCIIString(name, k) == 0; });
    if (found != std::end(kOwn) && !binding.takes(*found)) {
      own_[found - kOwn] = nb::borrow(given.args[given.count + i]);
    } else {
      others.append(nb::handle(name));
      arguments_.push_back(given.args[given.count + i]);
    }
  }
  if (others.size() > 0) names_ = nb::tuple(others);
}

std::optional<Device> ExplainCall::device() const {
  return own_[0].is_valid() ? std::optional(parse_device(nb::cast<std::string>(own_[0]))) : std::nullopt;
}

nb::object ExplainCall::explain_ranks(nb::handle function) const {
  const std::optional<Device> on = device();
  const auto number = [&](int i) { return own_[i].is_valid() ? own_[i] : nb::object(nb::int_(1)); };
  return nb::module_::import_("lamina._ranks_model")
      .attr("explain")(function, positional_of(rest()), named_of(rest()), on ? nb::object(nb::str(text(*on).c_str())) : nb::none(),
                       number(1), number(2));
}

void look_at_call(nb::handle function, const Call& call, const std::shared_ptr<ConcreteFunction>& graph) {
  if (before_call && !Trace::current())
    nb::borrow<nb::object>(before_call)(function, positional_of(call), named_of(call), Concrete{graph, {}});
}

void bind_function_calls(nb::module_& m) {
  m.def(
      "_before_call",
      [](nb::object look) {
        PyObject* old = std::exchange(before_call, look.is_none() ? nullptr : look.release().ptr());
        Py_XDECREF(old);
      },
      nb::arg("look").none(), "Calls look(function, args, kwargs, graph) before the first calls of traced functions; None: no longer.");
}

}  // namespace lamina::python
