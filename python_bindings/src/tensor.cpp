// lm.Tensor: operators, indexing, conversion to Python and NumPy values.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "graph/frontend/device.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/shape_functions.h"
#include "python_bindings/src/dlpack.h"
#include "python_bindings/src/operators.h"

namespace lamina::python {

PyTypeObject* tensor_type = nullptr;

namespace {

Operand self_operand(const Tensor& t) { return Operand(t, CallSite()); }
TensorObject like(const Tensor& t, Tensor made) {
  const Operand self = self_operand(t);
  return nb::steal<TensorObject>(wrap_like(std::move(made), {&self}));
}

Py_ssize_t tensor_length(PyObject* self) {
  return guarded<Py_ssize_t>(
      [&] {
        const Shape& shape = as_tensor(self).shape();
        if (shape.empty())
          throw_type_error("len(): a tensor without axes has no length", "a length is the first axis's", "use .size or .item()");
        if (!shape[0].known()) throw Error(ErrorKind::invalid_argument, {.what = "len(): the first dimension is not known while tracing"});
        return Py_ssize_t(shape[0].number());
      },
      -1);
}

PyObject* tensor_iterate(PyObject* self) {
  return guarded([&] {
    const Tensor& t = as_tensor(self);
    if (t.rank() == 0)
      throw_type_error("a tensor without axes cannot be looped over", "a loop goes along the first axis",
                       "use .item(), or lm.reshape(x, (1,))");
    const Py_ssize_t n = tensor_length(self);
    if (n < 0) throw_python_error();
    nb::list rows;
    for (Py_ssize_t i = 0; i < n; ++i) rows.append(like(t, index(self_operand(t), {IndexPart::at(i)})));
    return PyObject_GetIter(rows.ptr());
  });
}

PyObject* tensor_subscript(PyObject* self, PyObject* key) {
  return guarded([&] { return index_with(Operand(as_tensor(self), CallSite()), key); });
}

Py_hash_t tensor_identity_hash(PyObject* self) {
  const auto n = reinterpret_cast<uintptr_t>(self);
  return Py_hash_t((n >> 4) | (n << 60));
}

PyObject* tensor_to_text(PyObject* self) {
  return guarded([&] {
    const std::string s = as_tensor(self).str();
    return PyUnicode_FromStringAndSize(s.data(), Py_ssize_t(s.size()));
  });
}

PyType_Slot tensor_slots[] = {
    LAMINA_OPERATOR_SLOTS,
    {Py_nb_bool, reinterpret_cast<void*>(
                     static_cast<int (*)(PyObject*)>([](PyObject* o) { return guarded<int>([&] { return truth(as_tensor(o)); }, -1); }))},
    {Py_nb_int, reinterpret_cast<void*>(static_cast<unaryfunc>([](PyObject* o) { return guarded([&] { return to_int(as_tensor(o)); }); }))},
    {Py_nb_float,
     reinterpret_cast<void*>(static_cast<unaryfunc>([](PyObject* o) { return guarded([&] { return to_float(as_tensor(o)); }); }))},
    {Py_nb_index,
     reinterpret_cast<void*>(static_cast<unaryfunc>([](PyObject* o) { return guarded([&] { return to_index(as_tensor(o)); }); }))},
    {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
    {Py_mp_subscript, reinterpret_cast<void*>(tensor_subscript)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(refuse_assignment)},
    {Py_tp_iter, reinterpret_cast<void*>(tensor_iterate)},
    {Py_tp_hash, reinterpret_cast<void*>(tensor_identity_hash)},
    {Py_tp_str, reinterpret_cast<void*>(tensor_to_text)},
    {Py_tp_repr, reinterpret_cast<void*>(tensor_to_text)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {0, nullptr},
};

}  // namespace

nb::object item_of(const Tensor& t) {
  if (is_complex(t.dtype())) {
    const std::vector<double> parts = as_real(Operand(t, CallSite())).to_vector<double>();
    t.concrete("item()");
    require_one_element(t);
    return nb::steal(PyComplex_FromDoubles(parts[0], parts[1]));
  }
  if (t.dtype() == DType::u64) return nb::int_(t.item<uint64_t>());
  if (is_floating(t.dtype())) return nb::float_(t.item<double>());
  if (t.dtype() == DType::boolean) return nb::bool_(t.item<int64_t>() != 0);
  return nb::int_(t.item<int64_t>());
}

// x.__array__(dtype, copy): without copy=True, if possible, a read-only array on the tensor's own memory.
nb::object to_lists(const Tensor& t) {
  return to_numpy(t.dtype() == DType::bf16 ? astype(self_operand(t), DType::f32) : t).attr("tolist")();
}

nb::object as_array(const nb::object& self, const Tensor& t, nb::handle dtype, nb::handle copy) {
  nb::object array;
  const bool must_copy = !copy.is_none() && nb::cast<bool>(copy);
  const bool never_copy = !copy.is_none() && !must_copy;
  if (must_copy || t.is_symbolic() || t.dtype() == DType::bf16 || t.device().kind != DeviceKind::cpu) {
    if (never_copy) {
      PyErr_SetString(PyExc_ValueError, "the tensor's memory cannot be used in place; leave out copy=False");
      throw_python_error();
    }
    array = to_numpy(t);
  } else {
    nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
    if (!view.is_valid()) throw_python_error();
    array = nb::module_::import_("numpy").attr("asarray")(view);
  }
  if (dtype.is_none()) return array;
  if (never_copy && !nb::cast<bool>(array.attr("dtype").attr("__eq__")(dtype))) {
    PyErr_SetString(PyExc_ValueError, "another dtype needs a copy; leave out copy=False");
    throw_python_error();
  }
  return array.attr("astype")(dtype, nb::arg("copy") = false);
}

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor> c(m, "Tensor", nb::type_slots(tensor_slots), nb::is_weak_referenceable(),
                       "An immutable array on a device; while a function is traced, the name of a value that its graph will compute.\n\n"
                       "Made by lm.constant and every op. Operators broadcast as NumPy's do and take a tensor of the same dtype, a Python "
                       "number, or an array, which takes the tensor's dtype.");
  tensor_type = reinterpret_cast<PyTypeObject*>(c.ptr());
  c.def_prop_ro(
       "shape", [](const Tensor& t) { return to_python(t.shape()); },
       "The lengths of the axes; None for one that is not known while tracing.")
      .def_prop_ro("dtype", [](const Tensor& t) { return to_python(t.dtype()); })
      .def_prop_ro(
          "ndim", [](const Tensor& t) { return t.rank(); }, "The number of axes.")
      .def_prop_ro(
          "size", [](const Tensor& t) { return t.size(); }, "The number of elements.")
      .def_prop_ro(
          "device", [](const Tensor& t) { return device_of(t); }, "Where it lies: \"cpu:0\".")
      .def_prop_ro(
          "T", [](const Tensor& t) { return like(t, transpose(self_operand(t))); }, "The tensor with its axes in reverse order.")
      .def_prop_ro(
          "mT", [](const Tensor& t) { return like(t, swapaxes(self_operand(t), -1, -2)); }, "The tensor with its last two axes exchanged.")
      .def(
          "to_device",
          [](const Tensor& t, const std::string& device, nb::handle stream) {
            if (!stream.is_none()) throw_type_error("to_device: a stream was given", "each device has one stream here", "leave it away");
            return to_python(t.to(parse_device(device)));
          },
          nb::arg("device"), nb::kw_only(), nb::arg("stream") = nb::none(), "The same as to(device), by the array API's name.")
      .def(
          "__array_namespace__",
          [](const Tensor&, nb::handle version) { return nb::module_::import_("lamina.xp").attr("_of_version")(version); }, nb::kw_only(),
          nb::arg("api_version") = nb::none(), "lm.xp, the array API standard's namespace.")
      .def(
          "numpy", [](const Tensor& t) { return to_numpy(t); }, "A NumPy array with a copy of the elements; waits for the device.")
      .def(
          "__array__",
          [](nb::object self, nb::handle dtype, nb::handle copy) { return as_array(self, as_tensor(self.ptr()), dtype, copy); },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def(
          "item", [](const Tensor& t) { return item_of(t); },
          "The only element as a Python number. Raises InvalidArgument when there are several.")
      .def(
          "__complex__",
          [](const Tensor& t) {
            const nb::object value = item_of(t);
            return PyComplex_Check(value.ptr()) ? value : nb::steal(PyComplex_FromDoubles(nb::cast<double>(nb::float_(value)), 0));
          },
          "The only element as a Python complex number.")
      .def(
          "tolist", [](const Tensor& t) { return to_lists(t); }, "The elements as nested lists of Python numbers.")
      .def("__format__",
           [](const nb::object& self, const std::string& spec) {
             const nb::object value = spec.empty() ? nb::object(nb::str(self)) : item_of(as_tensor(self.ptr()));
             return nb::steal(PyObject_Format(value.ptr(), nb::str(spec.c_str()).ptr()));
           })
      .def("__copy__", [](nb::object self) { return self; })  // a tensor never changes
      .def("__deepcopy__", [](nb::object self, nb::handle) { return self; })
      .def("__trunc__", [](nb::handle self) { return nb::int_(self); })
      .def("__reduce__",
           [](const Tensor& t) {
             nb::object array = to_numpy(t.dtype() == DType::bf16 ? astype(self_operand(t), DType::f32) : t);
             return nb::make_tuple(nb::module_::import_("lamina._pickle").attr("tensor"), nb::make_tuple(array, numpy_name(t.dtype())));
           })
      .def(
          "__dlpack__",
          [](const Tensor& t, nb::handle, nb::handle version, nb::handle device, nb::handle copy) {
            return dlpack_capsule(t, version, device, copy);
          },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
          nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Tensor& t) { return dlpack_device(t); })
      .def(
          "to", [](const Tensor& t, const std::string& device) { return to_python(t.to(parse_device(device))); }, nb::arg("device"),
          "The same values on another device (\"gpu:0\"), also in a traced function; the tensor itself when it is there. Gradients go back "
          "to where it was. In a traced function ops run on the function's device, or on that of lm.device, wherever their operands are. "
          "Raises DeviceUnavailable.")
      .def(
          "astype", [](const Tensor& t, nb::handle dtype) { return to_python(astype(self_operand(t), to_dtype(dtype))); }, nb::arg("dtype"),
          doc_of("astype"))
      .def(
          "reshape",
          [](const Tensor& t, nb::args shape) {
            return like(t, reshape(self_operand(t), to_axes(nb::len(shape) == 1 ? nb::object(shape[0]) : nb::object(shape))));
          },
          "The same elements in another shape; one dimension may be -1.")
      .def(
          "transpose",
          [](const Tensor& t, nb::args axes) {
            const nb::object order = nb::len(axes) == 0 ? nb::none() : nb::len(axes) == 1 ? nb::object(axes[0]) : nb::object(axes);
            return like(t, transpose(self_operand(t), to_axes_or_all(order)));
          },
          "The axes in this order; without any, reversed.")
      .def(
          "squeeze", [](const Tensor& t, nb::handle axis) { return like(t, squeeze(self_operand(t), to_axes_or_all(axis))); },
          nb::arg("axis") = nb::none(), "As lm.squeeze.")
      .def(
          "__round__", [](const Tensor& t, nb::handle digits) { return rounded(self_operand(t), digits); },
          nb::arg("ndigits") = nb::none());
  c.attr("__array_priority__") = 1000;  // an ndarray lets the tensor handle operators with it
  m.def(
      "from_dlpack", [](nb::object array) { return to_python(tensor_from_dlpack(array)); }, nb::arg("array"),
      "The tensor that looks at another library's memory, without a copy when its elements lie in row-major order. The memory must not be\n"
      "changed while the tensor is used. Takes anything with __dlpack__.");
}

}  // namespace lamina::python
