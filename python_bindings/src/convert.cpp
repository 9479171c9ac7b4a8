#include "python_bindings/src/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <nanobind/stl/string.h>

#include "graph/frontend/factories.h"
#include "graph/frontend/trace.h"
#include "graph/functions/op_functions.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/dlpack.h"
#include "python_bindings/src/methods.h"

namespace lamina::python {
namespace {

struct BufferView {
  Py_buffer view{};
  bool ok = false;
  explicit BufferView(PyObject* o, int flags) : ok(PyObject_GetBuffer(o, &view, flags) == 0) {}
  ~BufferView() {
    if (ok) PyBuffer_Release(&view);
  }
  BufferView(const BufferView&) = delete;
};

nb::object numpy() { return nb::module_::import_("numpy"); }
// What NumPy has by this name, kept for the life of the process in `place`. A static's initialiser would not do: an import lets other
// threads run, and they would wait for the initialiser with the GIL.
PyObject* numpys(const char* name, PyObject*& place) {
  if (!place) place = nb::object(numpy().attr(name)).release().ptr();
  return place;
}

// numpy.ndarray, kept when is_array first sees one: NumPy is not imported for the question.
PyTypeObject* ndarray_type = nullptr;

// Converts a NumPy array, or what NumPy can convert to one. Copies.
Tensor tensor_from_array(nb::handle value) {
  const bool plain = Py_TYPE(value.ptr()) == ndarray_type;
  if (!plain && std::strcmp(Py_TYPE(value.ptr())->tp_name, "MaskedArray") == 0 &&
      nb::cast<bool>(numpy().attr("ma").attr("is_masked")(value)))
    throw_type_error("a masked array with masked elements does not become a tensor", "a tensor has a value at every place",
                     "fill them, array.filled(0), and pass the mask as a tensor of its own");
  // PyTorch's, JAX's: through DLPack, since not all of them give NumPy their memory. The copy is safe from changes in place.
  if (!plain && PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), "__dlpack__") &&
      !nb::isinstance(value, numpy().attr("ndarray")) && !nb::isinstance(value, numpy().attr("generic"))) {
    const Tensor shared = tensor_from_dlpack(nb::borrow(value), true);
    return shared.device().kind == DeviceKind::cpu ? constant(shared.data(), shared.type()) : shared;
  }
  for (int attempt = 0;; ++attempt) {
    nb::object array = nb::borrow(value);
    if (attempt > 0) array = numpy().attr("ascontiguousarray")(value);
    if (attempt > 0 &&
        nb::cast<std::string>(array.attr("dtype").attr("byteorder")) == (std::endian::native == std::endian::little ? ">" : "<")) {
      array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
    }
    BufferView buffer(array.ptr(), PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
    if (!buffer.ok && attempt == 0) {
      PyErr_Clear();  // strided, or no buffer at all
      continue;
    }
    DType dtype;
    if (!buffer.ok || !dtype_of_format(buffer.view.format, buffer.view.itemsize, dtype)) {
      if (attempt == 0) continue;
      PyErr_Clear();
      const nb::object array_dtype = array.attr("dtype");
      const std::string name = nb::str(array_dtype).c_str();
      throw_type_error(name == "object" ? cat(a_type(value.ptr()), " is not a number or an array of numbers")
                                        : cat("there are no tensors of dtype ", name),
                       name == "object" ? "" : "the array's elements have no counterpart", "convert the array with astype first");
    }
    if (attempt > 0) {  // ascontiguousarray turns a scalar into a vector
      TensorType type{dtype, {}};
      for (nb::handle d : nb::borrow<nb::tuple>(numpy().attr("shape")(value))) type.shape.emplace_back(nb::cast<int64_t>(d));
      return constant(buffer.view.buf, type);
    }
    TensorType type{dtype, {}};
    for (int i = 0; i < buffer.view.ndim; ++i) type.shape.emplace_back(int64_t(buffer.view.shape[i]));
    return constant(buffer.view.buf, type);
  }
}

int64_t to_int64(nb::handle value) {
  const long long n = PyLong_AsLongLong(value.ptr());
  if (n == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    throw Error(ErrorKind::invalid_argument, {.what = cat("the integer ", shown(value), " does not fit 64 bits"),
                                              .where = text(CallSite().line()),
                                              .why = "integers are those from -2**63 to 2**63 - 1",
                                              .fix = "pass a smaller one, or a float"});
  }
  return n;
}

// An integer from 2**63 to 2**64 - 1: of uint64 alone.
bool is_beyond_int64(PyObject* o) {
  if (!PyLong_Check(o)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow != 1) return false;
  PyLong_AsUnsignedLongLong(o);
  const bool fits = !PyErr_Occurred();
  PyErr_Clear();
  return fits;
}

bool fits(int64_t n, DType d) {
  switch (d) {
    case DType::u8: return n >= 0 && n <= 255;
    case DType::i8: return n >= -128 && n <= 127;
    case DType::i16: return n >= -32768 && n <= 32767;
    case DType::i32: return n >= INT32_MIN && n <= INT32_MAX;
    case DType::u16: return n >= 0 && n <= 65535;
    case DType::u32: return n >= 0 && n <= int64_t(UINT32_MAX);
    case DType::u64: return n >= 0;
    default: return true;
  }
}

// The numbers of nested lists in order, and their shape.
struct NestedNumbers {
  enum Kind { boolean, integer, floating } kind = boolean;
  std::vector<int64_t> integers;  // until the first float
  std::vector<double> floats;
  std::vector<int64_t> shape;
  bool has_tensor = false, has_array = false;  // has_array: parts for NumPy, which are arrays and complex numbers
  bool has_wide = false;                       // integers of uint64 alone, which stand in `integers` as 0
  bool any = false;
  size_t outside = 0;  // enclosing lists of the part being walked

  [[noreturn]] static void ragged(const std::string& detail) {
    throw Error(ErrorKind::invalid_argument, {.what = "constant: the nested lists do not form a rectangle",
                                              .where = "",
                                              .why = detail,
                                              .fix = "make all lists at one level equally long"});
  }
  void add(nb::handle value) {
    PyObject* o = value.ptr();
    Kind k;
    int64_t n = 0;
    if (PyBool_Check(o))
      k = boolean, n = o == Py_True;
    else if (is_beyond_int64(o))
      k = integer, has_wide = true;
    else if (PyLong_Check(o))
      k = integer, n = to_int64(value);
    else
      k = floating;
    if (any && (k == boolean) != (kind == boolean)) {
      throw_type_error("constant: numbers and booleans are mixed", "a tensor has one dtype", "use only numbers, or only True and False");
    }
    any = true;
    if (k == floating && kind != floating) floats.assign(integers.begin(), integers.end());
    if (k > kind) kind = k;
    if (kind == floating)
      floats.push_back(k == floating ? PyFloat_AS_DOUBLE(o) : double(n));
    else
      integers.push_back(n);
  }
  void walk(nb::handle value, size_t depth) {
    PyObject* o = value.ptr();
    if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
      if (outside + depth >= size_t(kMaxRank))
        throw Error(ErrorKind::invalid_argument, {.what = cat("constant: lists are nested more than ", kMaxRank, " levels deep"),
                                                  .where = text(CallSite().line()),
                                                  .why = "each level is an axis, and tensors have no more",
                                                  .fix = "pass a list that does not contain itself"});
      const std::vector<nb::object> parts = elements_of(value);
      const auto length = int64_t(parts.size());
      if (depth == shape.size()) {
        if (any) ragged(cat("there is a list at depth ", depth, " beside a number"));
        shape.push_back(length);
      } else if (shape[depth] != length) {
        ragged(cat("at depth ", depth, " one list has ", shape[depth], " elements, another ", length));
      }
      for (size_t i = 0; i < parts.size() && !has_tensor && !has_array; ++i) walk(parts[i], depth + 1);
    } else if (is_tensor(o) || is_variable(o)) {
      has_tensor = true;
    } else if (PyComplex_Check(o)) {
      has_array = true;
    } else if (PyBool_Check(o) || PyLong_Check(o) || PyFloat_Check(o)) {
      if (depth < shape.size()) ragged(cat("there is a number at depth ", depth, " beside a list"));
      add(value);
    } else if (is_array(o)) {
      has_array = true;
    } else if (is_sequence(o)) {
      const nb::object list = nb::steal(PySequence_List(o));
      if (!list.is_valid()) throw_python_error();
      walk(list, depth);
    } else {
      throw_type_error(cat("constant: ", a_type(o), " is not a number"), "a tensor holds numbers or bools", what_to_pass(o));
    }
  }
};

Tensor number(NestedNumbers::Kind kind, int64_t n, double x, DType dtype) {
  if (kind == NestedNumbers::boolean) return dtype == DType::boolean ? scalar_b(n != 0) : scalar_i(n, dtype);
  if (kind == NestedNumbers::floating || is_floating(dtype) || is_complex(dtype))
    return scalar(kind == NestedNumbers::floating ? x : double(n), dtype);
  return scalar_i(n, dtype);
}

void check_number(const NestedNumbers& in, DType dtype) {
  if (in.kind == NestedNumbers::floating && !is_floating(dtype) && !is_complex(dtype)) {
    throw_type_error(cat("constant: a floating-point number does not become ", numpy_name(dtype), " by itself"),
                     "the fraction would be lost", cat("write lm.astype(lm.constant(...), lm.", numpy_name(dtype), ")"));
  }
  if (in.kind != NestedNumbers::integer) return;
  if (dtype == DType::boolean)
    throw_type_error("constant: integers do not become bool by themselves", "which of them are true is not said",
                     "compare with 0, or use lm.astype");
  for (const int64_t n : in.integers) {
    if (!fits(n, dtype)) {
      throw Error(
          ErrorKind::invalid_argument,
          {.what = cat("constant: ", n, " does not fit ", numpy_name(dtype)), .where = "", .why = "", .fix = "pass dtype=lm.int64"});
    }
  }
}

// Wraps a value in `depth` lists.
Tensor tensor_of(nb::handle value, std::optional<DType> dtype, size_t depth);

Tensor tensor_from_numbers(nb::handle value, std::optional<DType> dtype, size_t depth) {
  NestedNumbers in{.outside = depth};
  in.walk(value, 0);
  if (in.has_tensor) {
    if (!dtype) return stack(parts_of(value, "constant", depth + 1), 0, CallSite());
    std::vector<Tensor> parts;
    for (const nb::object& part : elements_of(value)) parts.push_back(tensor_of(part, dtype, depth + 1));
    return stack(parts, 0, CallSite());
  }
  if (in.has_wide && in.kind == NestedNumbers::integer && !in.has_array) {
    const auto negative = std::find_if(in.integers.begin(), in.integers.end(), [](int64_t n) { return n < 0; });
    if (negative != in.integers.end() || (dtype && is_integer(*dtype) && *dtype != DType::u64))
      throw Error(ErrorKind::invalid_argument,
                  {.what = negative != in.integers.end() ? cat("constant: ", *negative, " beside integers of 2**63 and more")
                                                         : cat("constant: an integer of 2**63 or more does not fit ", numpy_name(*dtype)),
                   .where = "",
                   .why = "such integers are of uint64 alone, which has no negative ones",
                   .fix = "pass dtype=lm.uint64, or floats"});
    Tensor t = tensor_from_array(numpy().attr("asarray")(value, "uint64"));
    return (dtype ? astype(Operand(t, CallSite()), *dtype) : t).with(Strength::array);
  }
  if (in.has_array || in.has_wide) {
    Tensor t = tensor_from_array(numpy().attr("asarray")(value));
    if (!dtype && t.dtype() == DType::c128) dtype = DType::c64;  // of Python's numbers and float64 arrays alike
    return (dtype ? astype(Operand(t, CallSite()), *dtype) : t).with(Strength::array);
  }
  if (!in.any) in.kind = NestedNumbers::floating;  // empty lists are float32, as NumPy's are floating
  const DType d = dtype.value_or(in.kind == NestedNumbers::boolean   ? DType::boolean
                                 : in.kind == NestedNumbers::integer ? DType::i32
                                                                     : DType::f32);
  if (in.any) check_number(in, d);
  if (in.shape.empty()) {
    return number(in.kind, in.kind == NestedNumbers::floating ? 0 : in.integers[0], in.kind == NestedNumbers::floating ? in.floats[0] : 0,
                  d)
        .with(Strength::array);
  }
  const TensorType type{d, Shape(in.shape.begin(), in.shape.end())};
  std::vector<std::byte> bytes(size_t(byte_size(type)));
  const size_t step = is_complex(d) ? 2 : 1;  // the imaginary parts are 0
  with_dtype(is_complex(d) ? part_of(d) : d, [&]<class T>() {
    T* out = reinterpret_cast<T*>(bytes.data());
    if (in.kind == NestedNumbers::floating) {
      for (size_t i = 0; i < in.floats.size(); ++i) out[step * i] = element_of<T>(in.floats[i]);
    } else {
      for (size_t i = 0; i < in.integers.size(); ++i) out[step * i] = element_of<T>(in.integers[i]);
    }
  });
  return constant(bytes.data(), type).with(Strength::array);
}

}  // namespace

std::string shown(nb::handle value) {
  constexpr size_t kLongest = 60;
  if (container_of(value.ptr()) != Container::none) {  // its text may be endless
    const bool counted = PyList_Check(value.ptr()) || PyTuple_Check(value.ptr());
    return counted ? cat(a_type(value.ptr()), " of ", Py_SIZE(value.ptr())) : a_type(value.ptr());
  }
  const nb::object text = nb::steal(PyObject_Repr(value.ptr()));
  const char* chars = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (!chars) {
    PyErr_Clear();
    return a_type(value.ptr());
  }
  std::string out(chars);
  if (out.size() <= kLongest) return out;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;  // keeps whole UTF-8 characters
  return out.substr(0, end) + "...";
}

std::string a_type(PyObject* value) {
  const std::string type = nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(value))).attr("__name__"));
  return cat(std::string_view("AEIOUaeiou").find(type[0]) == std::string_view::npos ? "a " : "an ", type);
}

bool is_array(PyObject* o) {
  if (PyLong_Check(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) || PyUnicode_Check(o) || PyBytes_Check(o) || is_tensor(o))
    return false;
  PyTypeObject* type = Py_TYPE(o);
  if (type == ndarray_type) return true;
  if (PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "__array__") == 0 || is_variable(o)) return false;
  if (std::strcmp(type->tp_name, "numpy.ndarray") == 0) ndarray_type = type;
  return true;
}

PyObject* wrap(Tensor tensor) { return wrap_argument(tensor.from_host() ? tensor.with(Strength::tensor) : std::move(tensor)); }
PyObject* wrap_argument(Tensor tensor) {
  if (!tensor.defined()) return Py_NewRef(Py_None);
  nb::object o = nb::inst_alloc(reinterpret_cast<PyObject*>(tensor_type));
  new (nb::inst_ptr<void>(o)) Tensor(std::move(tensor));
  nb::inst_mark_ready(o);
  return o.release().ptr();
}
TensorObject to_python(Tensor tensor) { return nb::steal<TensorObject>(wrap(std::move(tensor))); }
nb::object to_python(Variable variable) { return nb::cast(std::move(variable)); }

[[noreturn]] static void throw_open_length(const char* what) {
  const nb::tuple told = nb::module_::import_("lamina.errors").attr("OPEN_LENGTH");
  throw_type_error(what, nb::cast<std::string>(told[0]), nb::cast<std::string>(told[1]));
}

Shape to_shape(nb::handle value, bool open) {
  auto dimension = [&](nb::handle d) -> Dim {
    if (open && d.is_none()) return Dim();
    if (d.is_none()) throw_open_length("shape: None is not a dimension");
    if (PyBool_Check(d.ptr()) || !PyIndex_Check(d.ptr()))
      throw_type_error(cat("shape: ", shown(d), " is not a dimension"), "a dimension is an integer",
                       open ? "pass an int, or None for any length" : "pass an int");
    const int64_t length = to_whole(d);
    if (length < 0)
      throw Error(ErrorKind::invalid_argument, {.what = cat("shape: the dimension ", length, " is negative"),
                                                .where = text(CallSite().line()),
                                                .why = "a length is 0 or more",
                                                .fix = "pass the length itself; only reshape takes -1"});
    return Dim(length);
  };
  if (is_one_number(value)) return {dimension(value)};
  Shape out;
  const bool several = PySequence_Check(value.ptr()) || is_tensor(value.ptr()) || is_variable(value.ptr()) || is_array(value.ptr());
  if (!several || PyUnicode_Check(value.ptr()) || PyDict_Check(value.ptr()))
    throw_type_error(cat("shape: ", shown(value), " is not a shape"), "a shape has an integer per axis",
                     "pass a tuple or list of integers");
  if (is_tensor(value.ptr()) || is_variable(value.ptr())) {
    for (int64_t n : to_axes(value)) out.push_back(dimension(nb::int_(n)));
    return out;
  }
  for (const nb::object& d : elements_of(value)) out.push_back(dimension(d));
  return out;
}

nb::tuple to_python(const Shape& shape) {
  nb::object out = nb::steal(PyTuple_New(Py_ssize_t(shape.size())));
  for (size_t i = 0; i < shape.size(); ++i) {
    PyTuple_SET_ITEM(out.ptr(), Py_ssize_t(i), shape[i].known() ? PyLong_FromLongLong(shape[i].number()) : Py_NewRef(Py_None));
  }
  return nb::borrow<nb::tuple>(out);
}

bool is_one_number(nb::handle value) {
  PyObject* o = value.ptr();
  if (PyLong_Check(o)) return true;
  if (PyTuple_Check(o) || PyList_Check(o)) return false;
  if (is_tensor(o)) return as_tensor(o).rank() == 0;
  if (is_variable(o)) return as_variable(o).rank() == 0;
  if (is_array(o)) return PyObject_HasAttrString(o, "ndim") && nb::cast<int>(value.attr("ndim")) == 0;
  return PyIndex_Check(o) && !PySequence_Check(o);
}

int64_t to_whole(nb::handle value) {
  PyObject* o = value.ptr();
  if (value.is_none()) throw_open_length("None is no whole number");
  if (is_tensor(o) || is_variable(o)) {
    const Tensor t = to_tensor(value);
    if (!is_integer(t.dtype()))
      throw_type_error(cat(t.type(), " is no whole number"), "axes and lengths are integers", "convert it: lm.astype(x, lm.int64)");
    if (t.is_symbolic())
      throw Error(ErrorKind::invalid_argument, {.what = cat("an axis or a length is ", t.type(), " of a graph"),
                                                .where = text(CallSite().line()),
                                                .why = "shapes are known when a function is traced, the values of tensors are not",
                                                .fix = "pass an int, or make the result as long as it can be and use lm.where"});
  }
  if (!PyIndex_Check(o)) throw_type_error(cat(shown(value), " is no whole number"), "axes and lengths are integers", "pass an int");
  nb::object n = nb::steal(PyNumber_Index(o));
  if (!n.is_valid()) {
    PyErr_Clear();
    throw_type_error(cat(shown(value), " is no whole number"), "axes and lengths are integers", "pass an int");
  }
  return to_int64(n);
}

std::vector<int64_t> to_axes(nb::handle value) {
  if (value.is_none()) return {};
  PyObject* o = value.ptr();
  if (is_one_number(value)) return {to_whole(value)};
  if (is_tensor(o) || is_variable(o)) {
    const Tensor t = to_tensor(value);
    if (t.is_symbolic() || !is_integer(t.dtype())) to_whole(value);  // throws
    EagerScope outside;
    return t.to_vector<int64_t>();
  }
  if (PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o) || !(PySequence_Check(o) || PyObject_HasAttrString(o, "__iter__")))
    throw_type_error(cat(shown(value), " is no whole number, nor several"), "axes and lengths are integers",
                     "pass an int, or a tuple of ints");
  std::vector<int64_t> out;
  for (const nb::object& axis : elements_of(value)) out.push_back(to_whole(axis));
  return out;
}

AxesOrAll to_axes_or_all(nb::handle value) { return value.is_none() ? AxesOrAll() : AxesOrAll(to_axes(value)); }

Tensor to_tensor(nb::handle value, std::optional<DType> dtype) { return tensor_of(value, dtype, 0).with(Strength::tensor); }
Tensor to_argument(nb::handle value) { return tensor_of(value, {}, 0); }
std::vector<Tensor> tensors_of(nb::handle values) {
  std::vector<Tensor> out;
  for (const nb::object& value : elements_of(values)) out.push_back(to_tensor(value));
  return out;
}
nb::list to_list(std::span<const Tensor> tensors) {
  nb::list out;
  for (const Tensor& t : tensors) out.append(to_python(t));
  return out;
}

namespace {
Tensor tensor_of(nb::handle value, std::optional<DType> dtype, size_t depth) {
  PyObject* o = value.ptr();
  if (is_tensor(o)) return dtype ? astype(Operand(as_tensor(o), CallSite()), *dtype) : as_tensor(o);
  if (is_variable(o)) {
    Tensor read = as_variable(o).read(CallSite());
    return dtype ? astype(Operand(read, CallSite()), *dtype) : read;
  }
  const auto from_array = [&] {
    Tensor t = tensor_from_array(value).with(Strength::array);
    return dtype && *dtype != t.dtype() ? astype(Operand(t, CallSite()), *dtype) : t;
  };
  if (is_array(o)) return from_array();
  if (PyList_Check(o) || PyTuple_Check(o) || PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o))
    return tensor_from_numbers(value, dtype, depth);
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o)) return to_tensor(numpy().attr("asarray")(value), dtype);
  if (PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "__dlpack__")) return from_array();
  if (is_sequence(o)) return tensor_from_numbers(value, dtype, depth);
  throw_type_error(cat(a_type(o), " does not become a tensor"), "a tensor holds numbers or bools", what_to_pass(o));
}
}  // namespace

static bool is_numpy_scalar(PyObject* o) {
  static PyObject* place = nullptr;
  PyObject* generic = numpys("generic", place);
  return PyType_IsSubtype(Py_TYPE(o), reinterpret_cast<PyTypeObject*>(generic));
}

bool to_operand(nb::handle value, std::optional<Operand>& out) {
  PyObject* o = value.ptr();
  if (is_tensor(o))
    out.emplace(as_tensor(o), CallSite());
  else if (PyFloat_Check(o))
    out.emplace(PyFloat_AS_DOUBLE(o), CallSite());
  else if (PyBool_Check(o))
    out.emplace(o == Py_True, CallSite());
  else if (PyComplex_Check(o) || is_beyond_int64(o))
    out.emplace(to_argument(value), CallSite());
  else if (PyLong_Check(o))
    out.emplace(to_int64(value), CallSite());
  else if (is_variable(o))
    out.emplace(as_variable(o), CallSite());
  else if (PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o))
    out.emplace(to_argument(value), CallSite());
  else if (is_array(o)) {
    // A NumPy scalar is a number like Python's.
    if (is_numpy_scalar(o)) {
      nb::object n = value.attr("item")();
      if (PyFloat_Check(n.ptr()) || PyLong_Check(n.ptr())) return to_operand(n, out);
    }
    out.emplace(tensor_from_array(value).with(Strength::array), CallSite());
  } else {
    return false;
  }
  return true;
}

Operand to_operand(nb::handle value) {
  std::optional<Operand> out;
  if (!to_operand(value, out)) {
    throw_type_error(cat(a_type(value.ptr()), " is not a tensor"), "ops take numbers and what is made of them",
                     "pass tensors, Variables, numbers, nested lists of them or NumPy arrays");
  }
  return *std::move(out);
}

void keep_digits(nb::handle value, std::optional<Operand>& list, const Operand& other) {
  if (!(PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) || !other.is_tensor() || other.tensor().dtype() != DType::f64) return;
  if (list->tensor().from_host() && list->tensor().dtype() == DType::f32) list.emplace(to_tensor(value, DType::f64), CallSite());
}

std::vector<Tensor> parts_of(nb::handle values, const char* op, size_t depth) {
  const std::vector<nb::object> elements = elements_of(values);
  const auto tensor = std::find_if(elements.begin(), elements.end(), [](const nb::object& e) {
    return is_variable(e.ptr()) || (is_tensor(e.ptr()) && !as_tensor(e.ptr()).from_host());
  });
  std::optional<Operand> other;
  if (tensor != elements.end()) other.emplace(to_operand(*tensor));  // once: it reads a Variable
  std::vector<Tensor> out;
  for (const nb::object& e : elements) {
    const bool list = PyList_Check(e.ptr()) || PyTuple_Check(e.ptr());
    std::optional<Operand> part;
    if (list || !other || !to_operand(e, part)) part.emplace(tensor_of(e, {}, depth), CallSite());
    if (other) {
      keep_digits(e, part, *other);
      if (!part->is_tensor()) part.emplace(part->resolve(other->tensor().dtype(), other->tensor().device(), op), CallSite());
    }
    out.push_back(part->tensor());
  }
  return out;
}

std::pair<Operand, Operand> to_operands(nb::handle a, nb::handle b) {
  std::optional<Operand> left(to_operand(a)), right(to_operand(b));
  keep_digits(a, left, *right);
  keep_digits(b, right, *left);
  return {*std::move(left), *std::move(right)};
}

nb::object to_numpy(const Tensor& t) {
  t.concrete("numpy()");
  if (t.dtype() == DType::bf16)
    throw_type_error("NumPy has no bfloat16", "its floating dtypes are float16, float32 and float64",
                     "write lm.astype(x, lm.float32).numpy()");
  static PyObject* empty = nullptr;
  nb::object array = nb::handle(numpys("empty", empty))(to_python(t.shape()), numpy_name(t.dtype()));
  BufferView buffer(array.ptr(), PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS);
  if (!buffer.ok) throw_python_error();
  ReleasedGil release;
  t.copy_to_host(buffer.view.buf, size_t(buffer.view.len));
  return array;
}

namespace {
struct BufferShape {
  Tensor tensor;
  std::vector<Py_ssize_t> shape, strides;
};
}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded<int>(
      [&] {
        Tensor t = as_tensor(self);
        const char* format = format_of(t.dtype());
        if ((flags & PyBUF_WRITABLE) || !format || t.is_symbolic() || t.device().kind != DeviceKind::cpu) {
          PyErr_SetString(PyExc_BufferError, !format           ? "Python has no format for bfloat16; use lm.astype(x, lm.float32)"
                                             : t.is_symbolic() ? "a symbolic tensor has no memory yet"
                                             : t.device().kind != DeviceKind::cpu ? "the tensor is not in host memory; use .numpy()"
                                                                                  : "tensors are immutable: ask for a read-only buffer");
          return -1;
        }
        const void* data = t.data();
        auto shape = std::make_unique<BufferShape>();
        Py_ssize_t size = Py_ssize_t(size_of(t.dtype()));
        view->itemsize = size;
        for (auto d : numbers(t.shape())) shape->shape.push_back(Py_ssize_t(d));
        shape->strides.resize(shape->shape.size());
        for (size_t i = shape->shape.size(); i-- > 0;) {
          shape->strides[i] = size;
          size *= shape->shape[i];
        }
        view->buf = const_cast<void*>(data);
        view->len = size;
        view->readonly = 1;
        view->ndim = int(shape->shape.size());
        view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
        view->shape = (flags & PyBUF_ND) ? shape->shape.data() : nullptr;
        view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? shape->strides.data() : nullptr;
        view->suboffsets = nullptr;
        shape->tensor = std::move(t);
        view->internal = shape.release();
        view->obj = Py_NewRef(self);
        return 0;
      },
      -1);
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<BufferShape*>(view->internal); }

}  // namespace lamina::python
