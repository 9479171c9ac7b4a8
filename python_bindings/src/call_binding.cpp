#include "python_bindings/src/call_binding.h"

#include <algorithm>

#include <nanobind/stl/string.h>

#include "python_bindings/src/convert.h"
#include "python_bindings/src/structure.h"

#include "graph/frontend/call_site.h"

namespace lamina::python {
namespace {

[[noreturn]] void wrong_call(const std::string& what, const std::string& signature) {
  throw Error(ErrorKind::signature, {.what = what,
                                     .where = text(CallSite().line()),
                                     .why = cat("it takes ", signature),
                                     .fix = "pass what it takes, each argument once"});
}

// The Python function behind a callable, and how many of its first parameters are already bound.
nb::object plain_function(nb::handle callable, size_t& filled) {
  filled = 0;
  PyObject* o = callable.ptr();
  if (PyFunction_Check(o)) return nb::borrow(callable);
  if (PyMethod_Check(o)) {
    nb::object inner = plain_function(PyMethod_GET_FUNCTION(o), filled);
    ++filled;
    return inner;
  }
  if (PyType_Check(o) || PyCFunction_Check(o)) return {};
  nb::object call = nb::getattr(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(o))), "__call__", nb::none());
  if (!PyFunction_Check(call.ptr())) return {};
  filled = 1;
  return call;
}

}  // namespace

CallBinding::CallBinding(nb::handle callable) {
  size_t filled;
  nb::object function = plain_function(callable, filled);
  if (!function.is_valid()) return;
  nb::object code = function.attr("__code__");
  const size_t positional = nb::cast<size_t>(code.attr("co_argcount")), only_positional = nb::cast<size_t>(code.attr("co_posonlyargcount"));
  const size_t keyword_only = nb::cast<size_t>(code.attr("co_kwonlyargcount"));
  const int flags = nb::cast<int>(code.attr("co_flags"));
  nb::object names = code.attr("co_varnames"), defaults = function.attr("__defaults__"), keyword_defaults = function.attr("__kwdefaults__");
  if (positional < filled) return;  // self is part of *args
  const size_t default_count = defaults.is_none() ? 0 : nb::len(defaults);
  for (size_t i = filled; i < positional; ++i) {
    Parameter p{nb::cast<std::string>(names[i]), {}, i >= only_positional};
    if (i + default_count >= positional) p.fallback = defaults[i + default_count - positional];
    positional_.push_back(std::move(p));
  }
  for (size_t i = positional; i < positional + keyword_only; ++i) {
    Parameter p{nb::cast<std::string>(names[i]), {}, true};
    if (!keyword_defaults.is_none() && nb::borrow<nb::dict>(keyword_defaults).contains(nb::object(names[i])))
      p.fallback = keyword_defaults[names[i]];
    keyword_only_.push_back(std::move(p));
  }
  constexpr int kVarArgs = 0x04, kVarKeywords = 0x08;
  has_rest_ = flags & kVarArgs;
  has_keywords_ = flags & kVarKeywords;
  known_ = true;
}

std::string CallBinding::signature(const std::string& function) const {
  std::string out = function + '(';
  auto add = [&](const std::string& part) { out += (out.back() == '(' ? "" : ", ") + part; };
  auto text_of = [](const Parameter& p) { return p.fallback.is_valid() ? cat(p.name, "=", nb::repr(p.fallback).c_str()) : p.name; };
  for (const Parameter& p : positional_) add(text_of(p));
  if (has_rest_)
    add("*args");
  else if (!keyword_only_.empty())
    add("*");
  for (const Parameter& p : keyword_only_) add(text_of(p));
  if (has_keywords_) add("**kwargs");
  return out + ')';
}

std::vector<BoundArgument> CallBinding::bind(const std::string& function, PyObject* const* args, Py_ssize_t count, PyObject* names) const {
  std::vector<BoundArgument> out;
  std::vector<std::pair<std::string, nb::object>> by_name;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    by_name.emplace_back(nb::cast<std::string>(nb::handle(PyTuple_GET_ITEM(names, i))), nb::borrow(args[count + i]));
  }
  auto take = [&](const std::string& name, nb::object& value) {
    auto found = std::find_if(by_name.begin(), by_name.end(), [&](auto& one) { return one.first == name; });
    if (found == by_name.end()) return false;
    value = std::move(found->second);
    by_name.erase(found);
    return true;
  };
  const Py_ssize_t wanted = known_ ? Py_ssize_t(positional_.size()) : count;
  if (known_ && count > wanted && !has_rest_) {
    wrong_call(cat(function, "() takes ", wanted, " positional argument", wanted == 1 ? "" : "s", " but ", count,
                   count == 1 ? " was" : " were", " given"),
               signature(function));
  }
  for (Py_ssize_t i = 0; i < wanted; ++i) {
    if (!known_) {
      out.push_back({nb::borrow(args[i]), "argument " + std::to_string(i), ""});  // cat's stream costs a quarter of a microsecond
      continue;
    }
    const Parameter& p = positional_[size_t(i)];
    BoundArgument bound{{}, p.name, ""};
    if (i < count) {
      bound.value = nb::borrow(args[i]);
      nb::object twice;
      if (p.by_name && take(p.name, twice))
        wrong_call(cat(function, "() got multiple values for argument '", p.name, "'"), signature(function));
    } else if (!(p.by_name && take(p.name, bound.value))) {
      if (!p.fallback.is_valid())
        wrong_call(cat(function, "() missing 1 required positional argument: '", p.name, "'"), signature(function));
      bound.value = p.fallback;
      bound.is_default = true;
    }
    out.push_back(std::move(bound));
  }
  for (Py_ssize_t i = wanted; i < count; ++i) out.push_back({nb::borrow(args[i]), "args[" + std::to_string(i - wanted) + "]", ""});
  for (const Parameter& p : keyword_only_) {
    BoundArgument bound{{}, p.name, p.name};
    if (!take(p.name, bound.value)) {
      if (!p.fallback.is_valid())
        wrong_call(cat(function, "() missing 1 required keyword-only argument: '", p.name, "'"), signature(function));
      bound.value = p.fallback;
      bound.is_default = true;
    }
    out.push_back(std::move(bound));
  }
  if (known_ && !has_keywords_ && !by_name.empty())
    wrong_call(cat(function, "() got an unexpected keyword argument '", by_name.front().first, "'"), signature(function));
  std::sort(by_name.begin(), by_name.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (auto& [name, value] : by_name) out.push_back({std::move(value), name, name});
  return out;
}

bool CallBinding::takes(std::string_view name) const {
  auto named = [&](const Parameter& p) { return p.by_name && p.name == name; };
  return std::any_of(positional_.begin(), positional_.end(), named) || std::any_of(keyword_only_.begin(), keyword_only_.end(), named);
}

// With an input_signature, numbers and lists become tensors of the specs' dtypes.
void convert_to_signature(const std::vector<TensorSpec>& signature, bool receives_self, std::vector<BoundArgument>& bound) {
  size_t next = 0;
  for (size_t i = receives_self ? 1 : 0; i < bound.size(); ++i) {
    PyObject* o = bound[i].value.ptr();
    if (next >= signature.size()) break;
    if (is_variable(o) || is_tensor(o) || nb::isinstance<TensorSpec>(bound[i].value) || bound[i].is_default) {
      next += is_tensor(o);
      continue;
    }
    if (PyLong_Check(o) || PyFloat_Check(o) || PyList_Check(o) || is_array(o)) {
      const DType wanted = signature[next++].dtype;
      const Operand given(to_argument(bound[i].value), CallSite());
      const DType own = given.tensor().dtype();
      const bool number = !is_array(o) && (is_floating(own) ? is_floating(wanted) : own != DType::boolean && wanted != DType::boolean);
      bound[i].value =
          to_python(number ? to_tensor(bound[i].value, wanted) : given.resolve(wanted, given.tensor().device(), "the input_signature"));
    }
  }
}

nb::list described(std::span<const BoundArgument> arguments) {
  nb::list out;
  for (const BoundArgument& one : arguments)
    out.append(nb::make_tuple(one.name, !one.keyword.empty(), one.is_default, described_argument(one.value)));
  return out;
}

}  // namespace lamina::python
