// lm.Variable.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "graph/frontend/device.h"
#include "python_bindings/src/dlpack.h"
#include "python_bindings/src/operators.h"

namespace lamina::python {

PyTypeObject* variable_type = nullptr;

namespace {

Tensor value_of(PyObject* o) { return as_variable(o).read(CallSite()); }

Py_ssize_t variable_length(PyObject* self) {
  return guarded<Py_ssize_t>(
      [&] {
        const Shape& shape = as_variable(self).shape();
        if (shape.empty()) throw_type_error("len(): a Variable without axes has no length", "a length is the first axis's", "use .size");
        return Py_ssize_t(shape[0].number());
      },
      -1);
}

PyObject* variable_iterate(PyObject* self) {
  return guarded([&] { return PyObject_GetIter(to_python(value_of(self)).ptr()); });
}

PyObject* variable_subscript(PyObject* self, PyObject* key) {
  return guarded([&] { return index_with(Operand(value_of(self), CallSite()), key); });
}

Py_hash_t variable_identity_hash(PyObject* self) {
  return guarded<Py_hash_t>(
      [&] {
        const auto n = reinterpret_cast<uintptr_t>(as_variable(self).handle().get());
        return Py_hash_t((n >> 4) | (n << 60));
      },
      -1);
}

PyObject* variable_to_text(PyObject* self) {
  return guarded([&] {
    const std::string s = as_variable(self).str();
    return PyUnicode_FromStringAndSize(s.data(), Py_ssize_t(s.size()));
  });
}

template <PyObject* (*convert)(const Tensor&) noexcept>
PyObject* converted(PyObject* self) {
  return guarded([&] { return convert(value_of(self)); });
}

int is_true(PyObject* self) {
  return guarded<int>([&] { return truth(value_of(self)); }, -1);
}

// v += x: assigns the Variable and keeps the object.
template <Tensor (*op)(const Operand&, const Operand&)>
PyObject* in_place(PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    std::optional<Operand> right;
    if (!is_variable(self) || !to_operand(other, right)) return Py_NewRef(Py_NotImplemented);
    const Variable& v = as_variable(self);
    v.assign(Operand(op(Operand(v, CallSite()), *right), CallSite()));
    return Py_NewRef(self);
  });
}
PyObject* in_place_power(PyObject* self, PyObject* other, PyObject*) { return in_place<pow>(self, other); }

PyType_Slot variable_slots[] = {
    LAMINA_OPERATOR_SLOTS,
    LAMINA_SLOT(Py_nb_inplace_add, &in_place<add>),
    LAMINA_SLOT(Py_nb_inplace_subtract, &in_place<sub>),
    LAMINA_SLOT(Py_nb_inplace_multiply, &in_place<mul>),
    LAMINA_SLOT(Py_nb_inplace_true_divide, &in_place<div>),
    LAMINA_SLOT(Py_nb_inplace_floor_divide, &in_place<floor_divide>),
    LAMINA_SLOT(Py_nb_inplace_remainder, &in_place<mod>),
    LAMINA_SLOT(Py_nb_inplace_power, &in_place_power),
    LAMINA_SLOT(Py_nb_inplace_matrix_multiply, &in_place<matrix_product>),
    LAMINA_SLOT(Py_nb_inplace_and, &in_place<bitwise_and>),
    LAMINA_SLOT(Py_nb_inplace_or, &in_place<bitwise_or>),
    LAMINA_SLOT(Py_nb_inplace_xor, &in_place<bitwise_xor>),
    LAMINA_SLOT(Py_nb_inplace_lshift, &in_place<shift_left>),
    LAMINA_SLOT(Py_nb_inplace_rshift, &in_place<shift_right>),
    LAMINA_SLOT(Py_nb_bool, is_true),
    LAMINA_SLOT(Py_nb_int, &converted<to_int>),
    LAMINA_SLOT(Py_nb_float, &converted<to_float>),
    LAMINA_SLOT(Py_nb_index, &converted<to_index>),
    LAMINA_SLOT(Py_mp_length, variable_length),
    LAMINA_SLOT(Py_mp_subscript, variable_subscript),
    LAMINA_SLOT(Py_mp_ass_subscript, refuse_assignment),
    LAMINA_SLOT(Py_tp_iter, variable_iterate),
    LAMINA_SLOT(Py_tp_hash, variable_identity_hash),
    LAMINA_SLOT(Py_tp_str, variable_to_text),
    LAMINA_SLOT(Py_tp_repr, variable_to_text),
    {0, nullptr},
};

}  // namespace

void bind_variable(nb::module_& m) {
  nb::class_<Variable> c(
      m, "Variable", nb::type_slots(variable_slots), nb::is_weak_referenceable(),
      "A tensor that can be assigned. In operators it stands for its value at that point of the program; graphs use it by\n"
      "reference. dtype and shape never change. v += x and the like assign it. Raises TypeMismatch for values that the dtype does not\n"
      "hold.");
  variable_type = reinterpret_cast<PyTypeObject*>(c.ptr());
  c.def(
       "__init__",
       [](Variable* self, nb::handle initial, const std::optional<std::string>& name, bool trainable, nb::handle dtype) {
         new (self) Variable(Operand(to_tensor(initial, to_optional_dtype(dtype)), CallSite()), name.value_or(""), trainable);
       },
       nb::arg("initial"), nb::arg("name") = nb::none(), nb::arg("trainable") = true, nb::arg("dtype") = nb::none())
      .def_prop_ro("shape", [](const Variable& v) { return to_python(v.shape()); })
      .def_prop_ro("dtype", [](const Variable& v) { return to_python(v.dtype()); })
      .def_prop_ro("ndim", [](const Variable& v) { return v.rank(); })
      .def_prop_ro(
          "size", [](const Variable& v) { return v.size(); }, "The number of elements.")
      .def_prop_ro("name", [](const Variable& v) { return v.name(); })
      .def_prop_ro(
          "trainable", [](const Variable& v) { return v.trainable(); }, "Whether tapes watch it by themselves.")
      .def_prop_ro("device", [](const Variable& v) { return device_of(v); })
      .def_prop_ro("T", [](const Variable& v) { return to_python(transpose(Operand(v, CallSite()))); })
      .def_prop_ro(
          "models", [](const Variable& v) { return v.models(); },
          "Of a stacked Variable (lm.nn.stack, lm.per_model): how many models it has a value for. 0: it is not stacked.")
      .def(
          "read", [](const Variable& v) { return to_python(v.read(CallSite())); },
          "The value now, as a tensor that later assignments do not change.")
      .def(
          "assign", [](const Variable& v, nb::handle value) { v.assign(to_operand(value)); }, nb::arg("value"),
          "Sets the value, which must have this Variable's dtype and shape. Raises TypeMismatch or InvalidArgument.")
      .def(
          "assign_add", [](const Variable& v, nb::handle value) { v.assign_add(to_operand(value)); }, nb::arg("value"),
          "Adds a value of the Variable's dtype, whose shape broadcasts to its own. Raises InvalidArgument and TypeMismatch.")
      .def(
          "assign_sub", [](const Variable& v, nb::handle value) { v.assign_sub(to_operand(value)); }, nb::arg("value"),
          "Subtracts a value, as assign_add adds one.")
      .def(
          "numpy", [](const Variable& v) { return to_numpy(v.read(CallSite())); }, "A NumPy array with a copy of the value.")
      .def(
          "item", [](const Variable& v) { return item_of(v.read(CallSite())); },
          "The only element as a Python number. Raises InvalidArgument when there are several.")
      .def(
          "tolist", [](const Variable& v) { return to_lists(v.read(CallSite())); }, "The elements as nested lists of Python numbers.")
      .def(
          "__array__",
          [](const Variable& v, nb::handle dtype, nb::handle copy) {
            nb::object value = to_python(v.read(CallSite()));
            return as_array(value, as_tensor(value.ptr()), dtype, copy);
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def(
          "__dlpack__",
          [](const Variable& v, nb::handle, nb::handle version, nb::handle device, nb::handle copy) {
            return dlpack_capsule(v.read(CallSite()), version, device,
                                  copy);  // the value as it is now: a later assignment takes other memory
          },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
          nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Variable& v) { return dlpack_device(v.read(CallSite())); })
      .def("__trunc__", [](nb::handle self) { return nb::int_(self); })
      .def(
          "__round__", [](const Variable& v, nb::handle digits) { return rounded(Operand(v, CallSite()), digits); },
          nb::arg("ndigits") = nb::none())
      .def("__format__", [](const nb::object& self, const std::string& spec) {
        const nb::object value = spec.empty() ? nb::object(nb::str(self)) : item_of(value_of(self.ptr()));
        return nb::steal(PyObject_Format(value.ptr(), nb::str(spec.c_str()).ptr()));
      });
  c.attr("__array_priority__") = 1000;  // an ndarray lets the Variable handle operators with it
}

}  // namespace lamina::python
