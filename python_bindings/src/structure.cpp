#include "python_bindings/src/structure.h"

#include <algorithm>
#include <cstring>

#include <nanobind/stl/string.h>

#include "graph/frontend/device.h"

namespace lamina::python {
namespace {

uint64_t next_number() {
  static uint64_t last = 0;  // guarded by the GIL
  return ++last;
}

// A unique number for an object, never reused. An object without weak references is kept alive.
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

// A number for a value; equal values of one type get the same one. The first of them is kept alive.
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

// Of any length: Python's str() stops at 4,300 decimal digits.
std::string big_integer(nb::handle value) { return nb::cast<std::string>(nb::object(nb::steal(PyNumber_ToBase(value.ptr(), 16)))); }

bool compared_by_identity(PyObject* o) {
  return Py_TYPE(o)->tp_hash == PyBaseObject_Type.tp_hash || Py_TYPE(o)->tp_hash == PyObject_HashNotImplemented;
}

void append_bytes(std::string& key, const void* data, size_t size) { key.append(static_cast<const char*>(data), size); }

std::string element_path(const std::string& path, const std::string& inside) { return path + "[" + inside + "]"; }

// An argument in words: "3", "a list of 2", "a tensor", "a Policy".
std::string in_words(nb::handle value) {
  PyObject* o = value.ptr();
  if (is_tensor(o) || is_array(o) || nb::isinstance<TensorSpec>(value)) return "a tensor";
  if (is_variable(o)) return "a Variable";
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o))
    return cat(PyList_CheckExact(o) ? "a list of " : "a tuple of ", PySequence_Fast_GET_SIZE(o));
  if (PyDict_CheckExact(o)) {
    std::string keys;
    const Parts parts = parts_of(value, Container::dict);
    for (const size_t i : parts.order()) keys += cat(keys.empty() ? "" : ", ", shown(parts.keys[i]));
    return keys.empty() ? "an empty dict" : cat("a dict of ", keys);
  }
  if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o)) {
    return shown(value);
  }
  return a_type(o);
}

}  // namespace

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
  // The contents of a container are separate parts.
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
    key += overflow ? big_integer(value) : std::to_string(n);
    key += ';';
  } else if (PyFloat_CheckExact(o)) {
    const double x = PyFloat_AS_DOUBLE(o);
    key += 'f';
    append_bytes(key, &x, sizeof(x));
  } else if (PyUnicode_CheckExact(o)) {
    add_text(o);
  } else if (const Container kind = plain_container_of(o); kind != Container::none) {
    add_container(value, kind, path);
  } else if (nb::isinstance<TensorSpec>(value)) {
    const TensorSpec& spec = instance<TensorSpec>(value);
    add_tensor(placeholder(spec), spec.name.empty() ? path : spec.name);
  } else if (is_array(o)) {
    add_tensor(to_argument(value), path);
  } else {
    add_object(value);
  }
}

// Runs for every container and string of every call: to_string, because cat's stream costs a quarter of a microsecond.
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

// The mark of each kind of container; where the type matters, the type too.
void Flattener::add_container(nb::handle value, Container kind, const std::string& path) {
  Walk::Inside container(walk_, value, kind);
  const Parts& parts = container.parts;
  const size_t n = parts.values.size();
  const auto inside = [&](const std::string& name) { return want_names_ ? path + name : path; };
  switch (kind) {
    case Container::none: return;
    case Container::slice:
      key += 'l';
      for (const nb::object& part : parts.values) add(part, path);
      return;
    case Container::dict:
      if (!PyDict_CheckExact(value.ptr())) {
        add_object(value.type());
        for (const size_t i : parts.order()) add_count('@', Py_ssize_t(i));  // the body sees the keys of a derived dict in their own order
      }
      add_count('{', Py_ssize_t(n));
      for (const size_t i : parts.order()) {
        if (PyUnicode_CheckExact(parts.keys[i].ptr())) {
          add_text(parts.keys[i].ptr());
        } else {
          Flattener key_of_key(held_.ptr());  // a tensor in a dict's key is treated as an object
          key_of_key.add(parts.keys[i], "");
          key += key_of_key.key;
        }
        add(parts.values[i], want_names_ ? element_path(path, shown(parts.keys[i])) : path);
      }
      return;
    case Container::dataclass:
      key += 'D';
      add_object(value.type());
      for (size_t i = 0; i < n; ++i) {
        add_text(parts.keys[i].ptr());
        add(parts.values[i], want_names_ ? inside("." + nb::cast<std::string>(parts.keys[i])) : path);
      }
      for (const auto& [name, held] : other_attributes(value)) {
        key += 'A' + name;
        add_outside(held);
      }
      key += '}';
      return;
    case Container::named_tuple: add_object(value.type()); break;
    case Container::sequence:
      add_object(value.type());
      if (is_deque(value.ptr())) add(value.attr("maxlen"), path);
      break;
    case Container::list:
    case Container::tuple: break;
  }
  add_count(kind == Container::list ? '[' : kind == Container::sequence ? 'q' : kind == Container::tuple ? '(' : 't', Py_ssize_t(n));
  for (size_t i = 0; i < n; ++i) add(parts.values[i], want_names_ ? element_path(path, std::to_string(i)) : path);
}

// Of what is no part of the arguments: tensors are captured, and arrays are what they are when they are captured.
void Flattener::add_outside(nb::handle value) {
  if (is_tensor(value.ptr()) || is_variable(value.ptr())) return;
  if (is_array(value.ptr())) return add_object(value);
  Flattener of_value(held_.ptr());
  of_value.add(value, "");
  key += of_value.key;
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
  if (is_tensor(o) || nb::isinstance<TensorSpec>(value)) return leaf(value);
  if (is_variable(o)) return leaf(value);
  if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o)) return nb::borrow(value);
  if (const Container kind = plain_container_of(o); kind != Container::none) {
    Walk::Inside container(walk_, value, kind);
    const Parts& parts = container.parts;
    std::vector<nb::object> keys, values;
    const auto add = [&](size_t i) {
      values.push_back(rebuild(parts.values[i]));
      if (!parts.keys.empty()) keys.push_back(parts.keys[i]);
    };
    if (kind == Container::dict)
      for (const size_t i : parts.order()) add(i);
    else
      for (size_t i = 0; i < parts.values.size(); ++i) add(i);
    return with_parts(value, kind, keys, values);
  }
  return is_array(o) ? leaf(value) : nb::borrow(value);
}

nb::object ArgumentsWith::leaf(nb::handle original) {
  if (is_variable(original.ptr()) ? variable_ >= variables_.size() : tensor_ >= tensors_.size()) refuse_changed();
  return is_variable(original.ptr()) ? to_python(variables_[variable_++]) : nb::steal(wrap_argument(tensors_[tensor_++]));
}

void ArgumentsWith::finish() const {
  if (tensor_ != tensors_.size() || variable_ != variables_.size()) refuse_changed();
}

void ArgumentsWith::refuse_changed() {
  throw Error(ErrorKind::invalid_argument, {.what = "an argument is another one each time that it is looked at",
                                            .where = text(CallSite().line()),
                                            .why = "its fields or its copy depend on when they are asked for",
                                            .fix = "pass a plain list, dict or dataclass of the values"});
}

namespace {

nb::object described(nb::handle value, bool by_key, Walk& walk) {
  PyObject* o = value.ptr();
  if (is_tensor(o) || nb::isinstance<TensorSpec>(value)) return nb::make_tuple("tensor");
  if (is_variable(o)) return nb::make_tuple("variable");
  if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o))
    return nb::make_tuple("value", value);
  const Container kind = plain_container_of(o);
  if (kind == Container::none || kind == Container::slice)
    return by_key && is_array(o) ? nb::object(nb::make_tuple("tensor"))
                                 : nb::object(nb::make_tuple("object", a_type(o)));  // a result's stays an array
  Walk::Inside container(walk, value, kind);
  const Parts& parts = container.parts;
  nb::list list;
  if (kind == Container::list || kind == Container::sequence || kind == Container::tuple) {
    for (const nb::object& part : parts.values) list.append(described(part, by_key, walk));
    return nb::make_tuple(kind == Container::tuple ? "tuple" : "list", list);
  }
  if (kind == Container::dict) {
    const auto add = [&](size_t i) { list.append(nb::make_tuple(parts.keys[i], described(parts.values[i], by_key, walk))); };
    if (by_key)  // as the Flattener goes
      for (const size_t i : parts.order()) add(i);
    else  // as ResultStructure does
      for (size_t i = 0; i < parts.keys.size(); ++i) add(i);
    return nb::make_tuple("dict", list);
  }
  const std::vector<nb::object> fields = kind == Container::dataclass ? parts.keys : elements_of(value.attr("_fields"));
  for (size_t i = 0; i < fields.size(); ++i) list.append(nb::make_tuple(fields[i], described(parts.values[i], by_key, walk)));
  return nb::make_tuple("named", value.type().attr("__name__"), list);
}

}  // namespace

nb::object described_argument(nb::handle value) {
  Walk walk("an argument");
  return described(value, true, walk);
}
nb::object described_result(nb::handle value) {
  Walk walk("a result");
  return described(value, false, walk);
}

namespace {

void refuse_traced_attributes(nb::handle dataclass) {
  for (const auto& [name, value] : other_attributes(dataclass))
    if (python::is_tensor(value.ptr()) && as_tensor(value.ptr()).is_symbolic())
      throw_type_error(cat(a_type(dataclass.ptr()), " has a tensor of the graph in '", name, "', which is no field of its class"),
                       "a dataclass is rebuilt from its fields",
                       cat("declare it in the class: ", name, ": lm.Tensor = dataclasses.field(init=False)"));
}

}  // namespace

std::shared_ptr<ResultStructure> ResultStructure::take(nb::handle result, std::vector<Tensor>& tensors) {
  Walk walk("a result");
  return take(result, tensors, walk);
}

namespace {
// Whether a value, or what an object holds, is a tensor that has no value behind the trace.
bool holds_traced(PyObject* o) {
  const auto is_traced = [](PyObject* value) { return python::is_tensor(value) && as_tensor(value).is_symbolic(); };
  if (PyAnySet_Check(o) || PyTuple_Check(o) || is_deque(o)) {
    for (const nb::handle& part : nb::handle(o))
      if (is_traced(part.ptr())) return true;
    return false;
  }
  PyObject** dict = PyType_Check(o) || PyModule_Check(o) || PyFunction_Check(o) ? nullptr : _PyObject_GetDictPtr(o);
  PyObject *name, *value;
  for (Py_ssize_t at = 0; dict && *dict && PyDict_Next(*dict, &at, &name, &value);)
    if (is_traced(value)) return true;
  return false;
}
}  // namespace

void check_leaf(nb::handle value) {
  PyObject* o = value.ptr();
  constexpr const char* kFix = "return tensors, numbers, None, and tuples, lists, deques, dicts, named tuples and dataclasses of them";
  if (PyIter_Check(o) || PyGen_Check(o) || PyCoro_CheckExact(o) || PyAsyncGen_CheckExact(o) || PyDictKeys_Check(o) ||
      PyDictValues_Check(o) || PyDictItems_Check(o))
    throw_type_error(cat(a_type(o), " is no result of a function of tensors"),
                     "it is made while tracing, and would be used up, or empty, at the next call", kFix);
  if (holds_traced(o))
    throw_type_error(cat(a_type(o), " with a tensor inside is no result of a function of tensors"),
                     "results are rebuilt at each call, of containers that can be taken apart", kFix);
}

std::shared_ptr<ResultStructure> ResultStructure::take(nb::handle result, std::vector<Tensor>& tensors, Walk& walk) {
  auto out = std::make_shared<ResultStructure>();
  PyObject* o = result.ptr();
  if (python::is_tensor(o)) {
    tensors.push_back(as_tensor(o));
    return out;
  }
  if (is_variable(o)) {
    tensors.push_back(as_variable(o).read(CallSite()));
    return out;
  }
  out->kept_ = nb::borrow(result);
  out->container_ = plain_container_of(o);
  if (out->container_ == Container::slice) out->container_ = Container::none;
  out->leaf_ = false;
  if (out->container_ == Container::none) {
    check_leaf(result);
    return out;
  }
  Walk::Inside container(walk, result, out->container_);
  if (out->container_ == Container::dataclass) refuse_traced_attributes(result);
  for (const nb::object& part : container.parts.values) out->children_.push_back(take(part, tensors, walk));
  out->keys_ = std::move(container.parts.keys);
  // Only the type is needed here; the container would keep traced values alive.
  if (out->container_ == Container::sequence)
    out->kept_ = with_parts(result, out->container_, {}, {});
  else if (PyList_Check(o) || PyTuple_Check(o))
    out->kept_ = nb::borrow(result.type());
  return out;
}

ResultStructure::~ResultStructure() {
  if (!kept_.is_valid() && keys_.empty() && !arguments.is_valid()) return;
  if (!Py_IsInitialized()) {
    kept_.release();
    arguments.release();
    for (nb::object& key : keys_) key.release();
    return;
  }
  HeldGil gil;
  kept_.reset();
  arguments.reset();
  keys_.clear();
}

nb::object ResultStructure::build(const std::function<nb::object(size_t)>& leaf) const {
  size_t next = 0;
  return build(leaf, next);
}

nb::object ResultStructure::build(const std::function<nb::object(size_t)>& leaf, size_t& next) const {
  if (leaf_) return leaf(next++);
  if (container_ == Container::none) return kept_;
  std::vector<nb::object> values;
  for (const auto& child : children_) values.push_back(child->build(leaf, next));
  if (container_ != Container::named_tuple) return with_parts(kept_, container_, keys_, values);
  nb::list list;
  for (const nb::object& value : values) list.append(value);
  return kept_.attr("_make")(list);
}

}  // namespace lamina::python
