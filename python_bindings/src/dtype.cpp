// lm.float32 and its kind: one object per dtype, equal to its names and to NumPy's dtypes.
#include <nanobind/stl/string.h>

#include "python_bindings/src/convert.h"

namespace lamina::python {
namespace {

struct DTypeObject {
  DType dtype;
};

PyObject* dtype_objects[std::size(kDTypes)] = {};  // kept for the life of the process

std::string text_of(nb::handle h) { return nb::cast<std::string>(h); }

// The name of a NumPy dtype or scalar type, or of a Python number type; "" for anything else.
std::string name_of_type(nb::handle value) {
  PyObject* o = value.ptr();
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return "bool";
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return "int32";
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return "float32";
  if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) return "complex64";
  const nb::object name = nb::getattr(value, PyType_Check(o) ? "__name__" : "name", nb::none());
  if (!PyUnicode_Check(name.ptr())) return "";
  std::string s = text_of(name);
  if (s == "bool_") return "bool";
  return PyType_Check(o) && std::string_view(reinterpret_cast<PyTypeObject*>(o)->tp_name).substr(0, 6) != "numpy." ? "" : s;
}

bool find_dtype(nb::handle value, DType& out) {
  if (nb::isinstance<DTypeObject>(value)) {
    out = instance<DTypeObject>(value).dtype;
    return true;
  }
  const std::string name = PyUnicode_Check(value.ptr()) ? text_of(value) : name_of_type(value);
  for (const DType d : kDTypes) {
    if (name == numpy_name(d) || name == lamina::name(d)) {
      out = d;
      return true;
    }
  }
  return false;
}

}  // namespace

bool dtype_of_format(const char* format, Py_ssize_t item_size, DType& out) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || (*format == '<' && std::endian::native == std::endian::little)) ++format;
  if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && !format[2]) {
    out = format[1] == 'f' ? DType::c64 : DType::c128;
    return size_of(out) == size_t(item_size);
  }
  if (!format[0] || format[1]) return false;
  switch (*format) {
    case '?': out = DType::boolean; break;
    case 'B': out = DType::u8; break;
    case 'b': out = DType::i8; break;
    case 'e': out = DType::f16; break;
    case 'f': out = DType::f32; break;
    case 'd': out = DType::f64; break;
    case 'h':
    case 'i':
    case 'l':
    case 'q': out = item_size == 2 ? DType::i16 : item_size == 4 ? DType::i32 : DType::i64; break;
    case 'H':
    case 'I':
    case 'L':
    case 'Q': out = item_size == 2 ? DType::u16 : item_size == 4 ? DType::u32 : DType::u64; break;
    default: return false;
  }
  return size_of(out) == size_t(item_size);
}

const char* format_of(DType d) {
  switch (d) {
    case DType::boolean: return "?";
    case DType::u8: return "B";
    case DType::i8: return "b";
    case DType::i16: return "h";
    case DType::i32: return "i";
    case DType::i64: return "q";
    case DType::f16: return "e";
    case DType::f32: return "f";
    case DType::f64: return "d";
    case DType::u16: return "H";
    case DType::u32: return "I";
    case DType::u64: return "Q";
    case DType::c64: return "Zf";
    case DType::c128: return "Zd";
    case DType::bf16: break;
  }
  return nullptr;
}

nb::object to_python(DType dtype) { return nb::borrow(dtype_objects[size_t(dtype)]); }

DType to_dtype(nb::handle value) {
  DType d;
  if (find_dtype(value, d)) return d;
  if (PyUnicode_Check(value.ptr())) return parse_dtype(text_of(value));  // throws not_found with the names
  const std::string name = name_of_type(value);
  std::string all;
  for (const DType one : kDTypes) all += cat(all.empty() ? "" : ", ", numpy_name(one));
  throw_type_error(name.empty() ? cat(a_type(value.ptr()), " does not name a dtype") : cat("there are no tensors of dtype ", name),
                   "the dtypes are " + all, "pass one of them, such as lm.float32 or \"float32\", or convert the array with astype first");
}

std::optional<DType> to_optional_dtype(nb::handle value) {
  if (value.is_none()) return {};
  return to_dtype(value);
}

void bind_dtypes(nb::module_& m) {
  nb::class_<DTypeObject>(m, "DType",
                          "The element type of a tensor: lm.float32, lm.int32, lm.bool, ... Equal to its name and to NumPy's dtype.")
      .def("__repr__", [](const DTypeObject& d) { return cat("lm.", numpy_name(d.dtype)); })
      .def("__str__", [](const DTypeObject& d) { return std::string(numpy_name(d.dtype)); })
      .def("__hash__", [](const DTypeObject& d) { return nb::hash(nb::str(numpy_name(d.dtype))); })
      .def(
          "__eq__",
          [](const DTypeObject& a, nb::handle b) {
            DType d;
            return find_dtype(b, d) && d == a.dtype;
          },
          nb::arg("other").none())
      .def(
          "__ne__",
          [](const DTypeObject& a, nb::handle b) {
            DType d;
            return !find_dtype(b, d) || d != a.dtype;
          },
          nb::arg("other").none())
      .def("__reduce__",
           [](const DTypeObject& d) {
             return nb::make_tuple(nb::module_::import_("lamina._pickle").attr("dtype"), nb::make_tuple(numpy_name(d.dtype)));
           })
      .def_prop_ro(
          "name", [](const DTypeObject& d) { return std::string(numpy_name(d.dtype)); }, "NumPy's name: \"float32\".")
      .def_prop_ro(
          "itemsize", [](const DTypeObject& d) { return size_of(d.dtype); }, "Bytes per element.")
      .def_prop_ro("is_floating", [](const DTypeObject& d) { return is_floating(d.dtype); })
      .def_prop_ro("is_integer", [](const DTypeObject& d) { return is_integer(d.dtype); })
      .def_prop_ro("is_complex", [](const DTypeObject& d) { return is_complex(d.dtype); })
      .def_prop_ro(
          "dtype", [](const DTypeObject& d) { return nb::module_::import_("numpy").attr("dtype")(numpy_name(d.dtype)); },
          "NumPy's dtype, so that NumPy takes a Lamina dtype where it wants one.");
  for (const DType d : kDTypes) {
    nb::object object = nb::cast(DTypeObject{d});
    m.attr(numpy_name(d)) = object;
    dtype_objects[size_t(d)] = object.release().ptr();
  }
  m.def(
      "dtype", [](nb::handle value) { return to_python(to_dtype(value)); }, nb::arg("value"),
      "The dtype that a name, a NumPy dtype or scalar type, or bool, int, float or complex stands for.\n\n"
      "Raises NotFound for an unknown name, TypeMismatch for anything else.");
}

}  // namespace lamina::python
