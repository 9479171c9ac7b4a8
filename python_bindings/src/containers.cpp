#include "python_bindings/src/containers.h"

#include <algorithm>

#include <nanobind/stl/string.h>

#include "graph/frontend/call_site.h"
#include "python_bindings/src/convert.h"

namespace lamina::python {
namespace {

constexpr int kDeepest = 200;  // levels
constexpr size_t kMostContainers = 1u << 17;
constexpr size_t kMostParts = 1u << 20;       // of all containers in one walk
constexpr size_t kMostElements = kMostParts;  // of an iterable

// Looked up in the type's classes: an attribute that is missing costs an AttributeError, for every array of every call.
bool is_dataclass(PyObject* o) {
  static PyObject* const fields = PyUnicode_InternFromString("__dataclass_fields__");
  static PyObject* const whole = PyUnicode_InternFromString("_lamina_whole");  // a Module is an object, whatever decorates its class
  if (PyType_Check(o)) return false;
  PyObject* const found = _PyType_Lookup(Py_TYPE(o), fields);
  return found && PyDict_Check(found) && !_PyType_Lookup(Py_TYPE(o), whole);
}

// The names and values of a dataclass's fields. Those without a value, of its class, and only for its __init__ are no parts.
void add_fields(PyObject* o, Parts& out) {
  static PyObject* const instance_field = nb::object(nb::module_::import_("dataclasses").attr("_FIELD")).release().ptr();
  const nb::object type = nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
  const nb::dict fields = nb::borrow<nb::dict>(type.attr("__dataclass_fields__"));
  for (const auto& [key, field] : fields) {
    const nb::object name = nb::borrow(key), kept = nb::borrow(field);
    if (!nb::getattr(kept, "_field_type", nb::none()).is(instance_field)) continue;
    nb::object value = nb::steal(PyObject_GetAttr(o, name.ptr()));
    if (!value.is_valid()) {
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw_python_error();
      PyErr_Clear();
      continue;
    }
    out.keys.push_back(name);
    out.values.push_back(std::move(value));
  }
}

[[noreturn]] void refuse(const char* what, const std::string& found, const char* why, const char* fix) {
  throw Error(ErrorKind::invalid_argument, {.what = cat(what, ": ", found), .where = text(CallSite().line()), .why = why, .fix = fix});
}

std::vector<nb::object> hold(PyObject* const* items, Py_ssize_t n) {
  std::vector<nb::object> out;
  out.reserve(size_t(n));
  for (Py_ssize_t i = 0; i < n; ++i) out.push_back(nb::borrow(items[i]));
  return out;
}

bool is_named_tuple(PyObject* o) { return PyTuple_Check(o) && !PyTuple_CheckExact(o) && PyObject_HasAttrString(o, "_fields"); }

nb::object copy_of(nb::handle original) { return nb::module_::import_("copy").attr("copy")(original); }

void check(Walk& walk, nb::handle value) {
  const Container kind = container_of(value.ptr());
  if (kind == Container::none) return;
  const Walk::Inside container(walk, value, kind);
  for (const nb::object& part : container.parts.values) check(walk, part);
}

}  // namespace

bool is_deque(PyObject* o) {
  static PyObject* const type = nb::object(nb::module_::import_("collections").attr("deque")).release().ptr();
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(type));
}

Container container_of(PyObject* o) {
  if (PyList_Check(o)) return PyList_CheckExact(o) ? Container::list : Container::sequence;
  if (PyTuple_Check(o)) return is_named_tuple(o) ? Container::named_tuple : Container::tuple;
  if (PyDict_Check(o)) return Container::dict;
  if (PySlice_Check(o)) return Container::slice;
  if (is_tensor(o) || is_variable(o) || PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o) || o == Py_None) return Container::none;
  if (is_deque(o)) return Container::sequence;
  return is_dataclass(o) ? Container::dataclass : Container::none;
}

Container plain_container_of(PyObject* o) {
  const Container kind = container_of(o);
  if (kind == Container::tuple && !PyTuple_CheckExact(o)) return Container::none;
  return kind;
}

// For lists, tuples and dicts no Python code runs here, so nothing changes meanwhile.
Parts parts_of(nb::handle container, Container kind) {
  PyObject* o = container.ptr();
  Parts out;
  switch (kind) {
    case Container::none: break;
    case Container::list:
    case Container::tuple:
    case Container::named_tuple: out.values = hold(PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o)); break;
    case Container::sequence: out.values = elements_of(container); break;
    case Container::dict: {
      out.keys.reserve(size_t(PyDict_Size(o)));
      out.values.reserve(out.keys.capacity());
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) {
        out.keys.push_back(nb::borrow(key));
        out.values.push_back(nb::borrow(value));
      }
      break;
    }
    case Container::slice: {
      const auto* s = reinterpret_cast<PySliceObject*>(o);
      for (PyObject* part : {s->start, s->stop, s->step}) out.values.push_back(nb::borrow(part));
      break;
    }
    case Container::dataclass: add_fields(o, out); break;
  }
  return out;
}

std::vector<std::pair<std::string, nb::object>> other_attributes(nb::handle dataclass) {
  std::vector<std::pair<std::string, nb::object>> out;
  PyObject** attributes = _PyObject_GetDictPtr(dataclass.ptr());
  const nb::object held = attributes && *attributes ? nb::borrow(*attributes) : nb::getattr(dataclass, "__dict__", nb::none());
  if (!PyDict_Check(held.ptr())) return out;
  const nb::object fields = dataclass.type().attr("__dataclass_fields__");
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(held.ptr(), &at, &key, &value);)
    if (PyUnicode_CheckExact(key) && PyDict_Check(fields.ptr()) && !PyDict_GetItemWithError(fields.ptr(), key))
      out.emplace_back(nb::cast<std::string>(nb::handle(key)), nb::borrow(value));
  return out;
}

std::vector<size_t> Parts::order() const {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (keys.empty() || !std::all_of(keys.begin(), keys.end(), [](const nb::object& k) { return PyUnicode_CheckExact(k.ptr()); }))
    return order;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return PyUnicode_Compare(keys[a].ptr(), keys[b].ptr()) < 0; });
  return order;
}

Walk::Inside::Inside(Walk& walk, nb::handle container, Container kind)
    : walk_(walk), above_(walk.innermost_), container_(container.ptr()), depth_(above_ ? above_->depth_ + 1 : 1) {
  for (const Inside* outer = above_; outer; outer = outer->above_)
    if (outer->container_ == container_)
      refuse(walk.what_, cat(a_type(container_), " contains itself"), "what is taken apart into its tensors has an end",
             "pass the parts that are used; a link back to the parent stays outside of lists, dicts and dataclasses");
  if (depth_ > kDeepest)
    refuse(walk.what_, cat("containers are nested more than ", kDeepest, " levels deep"), "what is taken apart has a bound",
           "pass one list of the parts");
  parts = parts_of(container, kind);
  walk.seen_ += parts.values.size();
  if (walk.seen_ > kMostParts || ++walk.containers_ > kMostContainers)
    refuse(walk.what_, cat("there are more than ", kMostContainers, " containers or ", kMostParts, " values in it"),
           "each is looked at by itself", "pass arrays or tensors instead of lists of numbers, and each list once");
  walk.innermost_ = this;
}

nb::object with_parts(nb::handle original, Container kind, const std::vector<nb::object>& keys, const std::vector<nb::object>& values) {
  switch (kind) {
    case Container::none: return nb::borrow(original);
    case Container::slice: return nb::steal(PySlice_New(values[0].ptr(), values[1].ptr(), values[2].ptr()));
    case Container::dict: {
      if (PyDict_CheckExact(original.ptr())) {
        nb::dict out;
        for (size_t i = 0; i < keys.size(); ++i) out[keys[i]] = values[i];
        return out;
      }
      nb::object out = copy_of(original);  // a defaultdict keeps its default
      if (!PyDict_Check(out.ptr()))
        throw_type_error(cat("the copy of ", a_type(original.ptr()), " is ", a_type(out.ptr())), "a copy of a dict is a dict", "");
      for (size_t i = 0; i < keys.size(); ++i)
        if (PyDict_SetItem(out.ptr(), keys[i].ptr(), values[i].ptr()) != 0) throw_python_error();
      return out;
    }
    case Container::dataclass: {
      nb::object out = copy_of(original);
      if (out.is(original)) {  // a member of an enumeration
        for (size_t i = 0; i < keys.size(); ++i)
          if (!values[i].is(nb::getattr(original, keys[i])))
            throw_type_error(cat("the copy of ", a_type(original.ptr()), " is itself"), "one with other fields is a copy of it",
                             "pass a plain dataclass of the values");
        return out;
      }
      const nb::object set = nb::handle(reinterpret_cast<PyObject*>(&PyBaseObject_Type)).attr("__setattr__");  // a frozen one has its own
      for (size_t i = 0; i < keys.size(); ++i) set(out, keys[i], values[i]);
      return out;
    }
    case Container::list:
    case Container::sequence:
    case Container::tuple:
    case Container::named_tuple: break;
  }
  nb::list list;
  for (const nb::object& value : values) list.append(value);
  if (kind == Container::sequence) {
    nb::object out = copy_of(original);  // a deque keeps its greatest length, an object of a derived class what else it has
    if (out.is(original) || container_of(out.ptr()) != kind)
      throw_type_error(cat("the copy of ", a_type(original.ptr()), " is itself, or ", a_type(out.ptr())),
                       "one with other parts is a copy of it", "pass a plain list of the values");
    if (!is_deque(out.ptr())) {
      if (PyList_SetSlice(out.ptr(), 0, PyList_GET_SIZE(out.ptr()), list.ptr()) != 0) throw_python_error();
      return out;
    }
    out.attr("clear")();
    out.attr("extend")(list);
    return out;
  }
  if (kind == Container::list) return list;
  return kind == Container::tuple ? nb::object(nb::tuple(list)) : nb::object(original.type().attr("_make")(list));
}

void check_containers(const char* what, nb::handle value) {
  Walk walk(what);
  check(walk, value);
}

const char* what_to_pass(PyObject* o) {
  const bool text = PyUnicode_Check(o) || PyBytes_Check(o);
  return PyObject_HasAttrString(o, "keys")                ? "pass its values: list(d.values())"
         : !text && PyObject_HasAttrString(o, "__iter__") ? "make a list of it, in an order of yours: list(values)"
                                                          : "pass numbers, nested lists of them, NumPy arrays or tensors";
}

bool is_sequence(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o)) return true;
  return PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !PyObject_CheckBuffer(o) &&
         PyObject_HasAttrString(o, "__len__") && !PyObject_HasAttrString(o, "keys");
}

std::vector<nb::object> elements_of(nb::handle sequence) {
  if (PyList_Check(sequence.ptr()) || PyTuple_Check(sequence.ptr()))
    return hold(PySequence_Fast_ITEMS(sequence.ptr()), PySequence_Fast_GET_SIZE(sequence.ptr()));
  std::vector<nb::object> out;
  for (nb::handle one : nb::iter(sequence)) {
    out.push_back(nb::borrow(one));
    if (out.size() > kMostElements)
      throw Error(ErrorKind::invalid_argument, {.what = cat(a_type(sequence.ptr()), " has more than ", kMostElements, " elements"),
                                                .where = text(CallSite().line()),
                                                .why = "all are taken at once, and it may have no end",
                                                .fix = "pass a list"});
  }
  return out;
}

}  // namespace lamina::python
