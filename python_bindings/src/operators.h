// The operators of Tensor and Variable, as slots of a Python type.
#pragma once
#include "graph/functions/op_functions.h"
#include "python_bindings/src/convert.h"

namespace lamina::python {

// A number that a graph computes in place of Python's (Strength::number); the tensor itself where it cannot be one.
Tensor as_number(Tensor t);
// The result of an operator, an index or a method: of arrays of the host it is one too, as in NumPy, and of numbers a number.
PyObject* wrap_like(Tensor tensor, std::initializer_list<const Operand*> operands);
// a OP b, where one is a Tensor or Variable. NotImplemented if the other is no number or array, so that Python tries its operator.
template <Tensor (*op)(const Operand&, const Operand&)>
PyObject* binary_slot(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    std::optional<Operand> left, right;
    if (!to_operand(a, left) || !to_operand(b, right)) return Py_NewRef(Py_NotImplemented);
    keep_digits(a, left, *right);
    keep_digits(b, right, *left);
    Tensor result;
    {
      Unlock unlock({&*left, &*right});
      result = op(*left, *right);
    }
    return wrap_like(std::move(result), {&*left, &*right});
  });
}
template <Tensor (*op)(const Operand&)>
PyObject* unary_slot(PyObject* a) {
  return guarded([&] {
    const Operand x = to_operand(a);
    return wrap_like(op(x), {&x});
  });
}
Tensor matrix_product(const Operand& a, const Operand& b);
PyObject* power_slot(PyObject* a, PyObject* b, PyObject* modulus);
PyObject* divmod_slot(PyObject* a, PyObject* b);
PyObject* identity_slot(PyObject* a);
// round(x, digits). Without digits: to integers, ties to even.
nb::object rounded(const Operand& x, nb::handle digits);
PyObject* compare_slot(PyObject* a, PyObject* b, int operation);

// x[key] with Python's rules.
PyObject* index_with(const Operand& x, PyObject* key) noexcept;
// x[key] = value and del x[key] (value is null): an error that names x.at.
// `value in x`: whether an element equals it.
int contains(PyObject* self, PyObject* value) noexcept;
int refuse_assignment(PyObject* self, PyObject* key, PyObject* value) noexcept;

int truth(const Tensor& t) noexcept;  // -1 with an exception set: several elements, or symbolic
PyObject* to_int(const Tensor& t) noexcept;
PyObject* to_float(const Tensor& t) noexcept;
PyObject* to_index(const Tensor& t) noexcept;
nb::object item_of(const Tensor& t);
nb::object as_array(const nb::object& self, const Tensor& t, nb::handle dtype, nb::handle copy);
// The elements as nested lists of Python numbers, of every dtype.
nb::object to_lists(const Tensor& t);

#define LAMINA_SLOT(slot, function) {slot, reinterpret_cast<void*>(function)}
#define LAMINA_OPERATOR_SLOTS                                                                                                              \
  LAMINA_SLOT(Py_nb_add, &binary_slot<add>), LAMINA_SLOT(Py_nb_subtract, &binary_slot<sub>),                                               \
      LAMINA_SLOT(Py_nb_multiply, &binary_slot<mul>), LAMINA_SLOT(Py_nb_true_divide, &binary_slot<div>),                                   \
      LAMINA_SLOT(Py_nb_floor_divide, &binary_slot<floor_divide>), LAMINA_SLOT(Py_nb_remainder, &binary_slot<mod>),                        \
      LAMINA_SLOT(Py_nb_matrix_multiply, &binary_slot<matrix_product>), LAMINA_SLOT(Py_nb_and, &binary_slot<bitwise_and>),                 \
      LAMINA_SLOT(Py_nb_or, &binary_slot<bitwise_or>), LAMINA_SLOT(Py_nb_xor, &binary_slot<bitwise_xor>),                                  \
      LAMINA_SLOT(Py_nb_lshift, &binary_slot<shift_left>), LAMINA_SLOT(Py_nb_rshift, &binary_slot<shift_right>),                           \
      LAMINA_SLOT(Py_nb_invert, &unary_slot<bitwise_not>), LAMINA_SLOT(Py_nb_negative, &unary_slot<neg>),                                  \
      LAMINA_SLOT(Py_nb_absolute, &unary_slot<lamina::abs>), LAMINA_SLOT(Py_nb_power, &power_slot),                                        \
      LAMINA_SLOT(Py_nb_divmod, &divmod_slot), LAMINA_SLOT(Py_nb_positive, &identity_slot), LAMINA_SLOT(Py_tp_richcompare, &compare_slot), \
      LAMINA_SLOT(Py_sq_contains, &contains)

}  // namespace lamina::python
