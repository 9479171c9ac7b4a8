#include "python_bindings/src/structure.h"

#include <algorithm>
#include <cstring>

#include <nanobind/stl/string.h>

#include "graph/frontend/device.h"

namespace lamina::python {
namespace {

bool has_dataclass_fields(PyObject* o) {
  return !PyType_Check(o) && PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "__dataclass_fields__");
}

nb::list fields_of(nb::handle value) {
  return nb::borrow<nb::list>(nb::object(nb::steal(
      PySequence_List(nb::object(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr()))).attr("__dataclass_fields__")).ptr()))));
}

uint64_t next_number() {
  static uint64_t last = 0;  // under the GIL
  return ++last;
}

// A number for an object, the same for as long as it lives and never used again. One that takes no weak references is held.
std::string identity_of(nb::handle value, nb::handle held) {
  static PyObject* known = PyDict_New();  // id -> (weak reference, number)
  static PyMethodDef forget_def{"forget",
                                [](PyObject* id, PyObject*) -> PyObject* {
                                  if (PyDict_DelItem(known, id) != 0) PyErr_Clear();
                                  return Py_NewRef(Py_None);
                                },
                                METH_O, nullptr};
  nb::object id = nb::steal(PyLong_FromVoidPtr(value.ptr()));
  for (PyObject* dict : {known, held.ptr()})
    if (PyObject* entry = PyDict_GetItemWithError(dict, id.ptr())) return nb::cast<std::string>(nb::handle(PyTuple_GET_ITEM(entry, 1)));
  nb::object forget = nb::steal(PyCFunction_New(&forget_def, id.ptr()));
  nb::object holder = nb::steal(PyWeakref_NewRef(value.ptr(), forget.ptr()));
  PyObject* dict = known;
  if (!holder.is_valid()) {
    PyErr_Clear();
    holder = nb::borrow(value), dict = held.ptr();
  }
  std::string number = std::to_string(next_number());
  nb::object entry = nb::make_tuple(holder, number);
  if (PyDict_SetItem(dict, id.ptr(), entry.ptr()) != 0) throw_python_error();
  return number;
}

// A number for a value, the same for equal values of one type. The first of them is held.
bool number_of_value(nb::handle value, nb::handle held, std::string& out) {
  nb::object key = nb::make_tuple(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr()))), value);
  PyObject* number = PyDict_GetItemWithError(held.ptr(), key.ptr());
  if (!number) {
    if (PyErr_Occurred()) {
      PyErr_Clear();  // not hashable
      return false;
    }
    nb::object next = nb::int_(next_number());
    if (PyDict_SetItem(held.ptr(), key.ptr(), next.ptr()) != 0) {
      PyErr_Clear();
      return false;
    }
    out = nb::cast<std::string>(nb::str(next));
    return true;
  }
  out = nb::cast<std::string>(nb::str(nb::handle(number)));
  return true;
}

bool compared_by_identity(PyObject* o) {
  return Py_TYPE(o)->tp_hash == PyBaseObject_Type.tp_hash || Py_TYPE(o)->tp_hash == PyObject_HashNotImplemented;
}

void append_bytes(std::string& key, const void* data, size_t size) { key.append(static_cast<const char*>(data), size); }

std::string element_path(const std::string& path, const std::string& inside) { return path + "[" + inside + "]"; }

// The keys of a dict in an order that does not depend on insertion when they are all strings.
std::vector<nb::object> sorted_keys(nb::handle dict) {
  std::vector<nb::object> keys;
  bool strings = true;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict.ptr(), &at, &key, &value);) {
    keys.push_back(nb::borrow(key));
    strings &= bool(PyUnicode_CheckExact(key));
  }
  if (strings) {
    std::sort(keys.begin(), keys.end(), [](const nb::object& a, const nb::object& b) { return PyUnicode_Compare(a.ptr(), b.ptr()) < 0; });
  }
  return keys;
}

nb::object copy_with(nb::handle original, const std::vector<nb::object>& fields, const std::vector<nb::object>& values) {
  nb::object copy = nb::module_::import_("copy").attr("copy")(original);
  nb::object set = nb::object(nb::handle(reinterpret_cast<PyObject*>(&PyBaseObject_Type)).attr("__setattr__"));  // a frozen one has its own
  for (size_t i = 0; i < fields.size(); ++i) set(copy, fields[i], values[i]);
  return copy;
}

// What an argument is, for people: "3", "a list of 2", "a tensor", "a Policy".
std::string in_words(nb::handle value) {
  PyObject* o = value.ptr();
  if (is_tensor(o) || is_array(o) || nb::isinstance<TensorSpec>(value)) return "a tensor";
  if (is_variable(o)) return "a Variable";
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o))
    return cat(PyList_CheckExact(o) ? "a list of " : "a tuple of ", PySequence_Fast_GET_SIZE(o));
  if (PyDict_CheckExact(o)) {
    std::string keys;
    for (const nb::object& k : sorted_keys(value)) keys += cat(keys.empty() ? "" : ", ", nb::cast<std::string>(nb::repr(k)));
    return keys.empty() ? "an empty dict" : cat("a dict of ", keys);
  }
  if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o)) {
    constexpr size_t kLongest = 60;
    const std::string text = nb::cast<std::string>(nb::repr(value));
    return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
  }
  return a_type(o);
}

}  // namespace

bool is_named_tuple(PyObject* o) { return PyTuple_Check(o) && !PyTuple_CheckExact(o) && PyObject_HasAttrString(o, "_fields"); }

Tensor placeholder(const TensorSpec& spec) {
  auto data = std::make_shared<TensorData>();
  data->type = std::make_shared<const TensorType>(TensorType{spec.dtype, spec.shape});
  data->device = default_device();
  return Tensor(std::shared_ptr<const TensorData>(std::move(data)));
}

void Flattener::add_tensor(Tensor t, const std::string& path) {
  tensors.push_back(std::move(t));
  key += 'T';
  if (want_names_) tensor_names.push_back(path);
}

void Flattener::add(nb::handle value, const std::string& path) {
  if (!want_names_) return add_any(value, path);
  const size_t part = parts.size(), start = key.size();
  parts.push_back({path, in_words(value), ""});
  add_any(value, path);
  // What is inside of a container has parts of its own.
  parts[part].key = parts.size() == part + 1 ? key.substr(start) : parts[part].text;
}

void Flattener::add_any(nb::handle value, const std::string& path) {
  PyObject* o = value.ptr();
  if (is_tensor(o)) return add_tensor(as_tensor(o), path);
  if (is_variable(o)) {
    variables.push_back(as_variable(o));
    key += 'V';
  } else if (o == Py_None) {
    key += 'N';
  } else if (PyBool_Check(o)) {
    key += o == Py_True ? "b1" : "b0";
  } else if (PyLong_CheckExact(o)) {
    int overflow = 0;
    const long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
    key += 'i';
    key += overflow ? nb::cast<std::string>(nb::str(value)) : std::to_string(n);
    key += ';';
  } else if (PyFloat_CheckExact(o)) {
    const double x = PyFloat_AS_DOUBLE(o);
    key += 'f';
    append_bytes(key, &x, sizeof(x));
  } else if (PyUnicode_CheckExact(o)) {
    add_text(o);
  } else if (PyTuple_CheckExact(o)) {
    add_sequence(value, '(', path);
  } else if (PyList_CheckExact(o)) {
    add_sequence(value, '[', path);
  } else if (PyDict_Check(o)) {
    add_dict(value, path);
  } else if (nb::isinstance<TensorSpec>(value)) {
    const TensorSpec& spec = *nb::inst_ptr<TensorSpec>(value);
    add_tensor(placeholder(spec), spec.name.empty() ? path : spec.name);
  } else if (is_named_tuple(o)) {
    add_object(reinterpret_cast<PyObject*>(Py_TYPE(o)));
    add_sequence(value, 't', path);
  } else if (PySlice_Check(o)) {
    key += 'l';
    for (const char* part : {"start", "stop", "step"}) add(value.attr(part), path);
  } else if (has_dataclass_fields(o)) {
    add_dataclass(value, path);
  } else if (is_array(o)) {
    add_tensor(to_tensor(value), path);
  } else {
    add_object(value);
  }
}

// For every container and string of every call: to_string, as cat's stream costs a quarter of a microsecond.
void Flattener::add_count(char mark, Py_ssize_t n) {
  key += mark;
  key += std::to_string(n);
  key += ':';
}

void Flattener::add_text(PyObject* string) {
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(string, &size);
  if (!text) throw_python_error();
  add_count('s', size);
  append_bytes(key, text, size_t(size));
}

void Flattener::add_sequence(nb::handle value, char mark, const std::string& path) {
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(value.ptr());
  add_count(mark, n);
  for (Py_ssize_t i = 0; i < n; ++i)
    add(PySequence_Fast_GET_ITEM(value.ptr(), i), want_names_ ? element_path(path, std::to_string(i)) : path);
}

void Flattener::add_dict(nb::handle value, const std::string& path) {
  const std::vector<nb::object> keys = sorted_keys(value);
  if (!PyDict_CheckExact(value.ptr())) add_object(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())));
  add_count('{', Py_ssize_t(keys.size()));
  for (const nb::object& k : keys) {
    if (PyUnicode_CheckExact(k.ptr())) {
      add_text(k.ptr());
    } else {
      Flattener key_of_key(held_.ptr());  // a tensor in a dict's key is an object like any other
      key_of_key.add(k, "");
      key += key_of_key.key;
    }
    add(PyDict_GetItem(value.ptr(), k.ptr()), want_names_ ? element_path(path, nb::cast<std::string>(nb::repr(k))) : path);
  }
}

bool Flattener::add_dataclass(nb::handle value, const std::string& path) {
  key += 'D';
  add_object(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())));
  for (nb::handle field : fields_of(value)) add(nb::getattr(value, field), want_names_ ? path + "." + nb::cast<std::string>(field) : path);
  return true;
}

void Flattener::add_object(nb::handle value) {
  std::string number;
  if (!compared_by_identity(value.ptr()) && number_of_value(value, held_, number))
    key += cat('h', number, ';');
  else
    key += cat('o', identity_of(value, held_), ';');
}

nb::object Rebuilder::rebuild(nb::handle value) {
  PyObject* o = value.ptr();
  auto next = [&] { return to_python(tensors[tensor++]); };
  if (is_tensor(o)) return next();
  if (is_variable(o)) return to_python(variables[variable++]);
  if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o)) return nb::borrow(value);
  if (PyTuple_CheckExact(o) || PyList_CheckExact(o) || is_named_tuple(o)) {
    nb::list out;
    for (nb::handle one : value) out.append(rebuild(one));
    if (PyList_CheckExact(o)) return out;
    if (PyTuple_CheckExact(o)) return nb::tuple(out);
    return value.type().attr("_make")(out);
  }
  if (PyDict_Check(o)) {
    nb::dict parts;
    for (const nb::object& key : sorted_keys(value)) parts[key] = rebuild(PyDict_GetItem(o, key.ptr()));
    nb::object out = nb::steal(PyObject_CallMethod(o, "copy", nullptr));  // keeps the order of the keys
    if (!out.is_valid() || PyDict_Update(out.ptr(), parts.ptr()) != 0) throw_python_error();
    return out;
  }
  if (nb::isinstance<TensorSpec>(value)) return next();
  if (PySlice_Check(o)) {
    nb::object start = rebuild(value.attr("start")), stop = rebuild(value.attr("stop")), step = rebuild(value.attr("step"));
    return nb::steal(PySlice_New(start.ptr(), stop.ptr(), step.ptr()));
  }
  if (has_dataclass_fields(o)) {
    std::vector<nb::object> fields, values;
    for (nb::handle field : fields_of(value)) {
      fields.push_back(nb::borrow(field));
      values.push_back(rebuild(nb::getattr(value, field)));
    }
    return copy_with(value, fields, values);
  }
  if (is_array(o)) return next();
  return nb::borrow(value);
}

std::shared_ptr<ResultStructure> ResultStructure::take(nb::handle result, std::vector<Tensor>& tensors) {
  auto out = std::make_shared<ResultStructure>();
  PyObject* o = result.ptr();
  auto take_each = [&] {
    for (nb::handle one : result) out->children_.push_back(take(one, tensors));
  };
  if (python::is_tensor(o)) {
    tensors.push_back(as_tensor(o));
  } else if (is_variable(o)) {
    tensors.push_back(as_variable(o).read(CallSite()));
  } else if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
    out->kind_ = PyList_CheckExact(o) ? Kind::list : Kind::tuple;
    take_each();
  } else if (PyDict_CheckExact(o)) {
    out->kind_ = Kind::dict;
    for (auto [key, value] : nb::borrow<nb::dict>(result)) {
      out->keys_.push_back(nb::borrow(key));
      out->children_.push_back(take(value, tensors));
    }
  } else if (is_named_tuple(o)) {
    out->kind_ = Kind::named_tuple;
    out->kept_ = nb::borrow(result.type());
    take_each();
  } else if (has_dataclass_fields(o)) {
    out->kind_ = Kind::dataclass;
    out->kept_ = nb::borrow(result);
    for (nb::handle field : fields_of(result)) {
      out->keys_.push_back(nb::borrow(field));
      out->children_.push_back(take(nb::getattr(result, field), tensors));
    }
  } else {
    out->kind_ = Kind::kept;
    out->kept_ = nb::borrow(result);
  }
  return out;
}

ResultStructure::~ResultStructure() {
  if (!kept_.is_valid() && keys_.empty()) return;
  if (!Py_IsInitialized()) {
    kept_.release();
    for (nb::object& key : keys_) key.release();
    return;
  }
  HeldGil gil;
  kept_.reset();
  keys_.clear();
}

nb::object ResultStructure::build(const std::function<nb::object(size_t)>& leaf) const {
  size_t next = 0;
  return build(leaf, next);
}

nb::object ResultStructure::build(const std::function<nb::object(size_t)>& leaf, size_t& next) const {
  if (kind_ == Kind::tensor) return leaf(next++);
  if (kind_ == Kind::kept) return kept_;
  std::vector<nb::object> values;
  for (const auto& child : children_) values.push_back(child->build(leaf, next));
  if (kind_ == Kind::dict) {
    nb::dict out;
    for (size_t i = 0; i < keys_.size(); ++i) out[keys_[i]] = values[i];
    return out;
  }
  if (kind_ == Kind::dataclass) return copy_with(kept_, keys_, values);
  nb::list list;
  for (nb::object& value : values) list.append(value);
  if (kind_ == Kind::list) return list;
  if (kind_ == Kind::tuple) return nb::tuple(list);
  return kept_.attr("_make")(list);
}

}  // namespace lamina::python
