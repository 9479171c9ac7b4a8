// Plain numbers of Python: arguments that are part of what is traced, not values of the graph.
#include "graph/frontend/tape.h"
#include "python_bindings/src/convert.h"

namespace lamina::python {

bool NumberObject::is_number(nb::handle value) {
  const PyNumberMethods* methods = Py_TYPE(value.ptr())->tp_as_number;
  return methods && (methods->nb_float || methods->nb_index);
}
bool is_recorded(nb::handle value) {
  PyObject* o = value.ptr();
  return is_tensor(o) ? lamina::is_recorded(as_tensor(o)) : is_variable(o) && lamina::is_recorded(as_variable(o));
}
double to_number(nb::handle value) {
  PyObject* o = value.ptr();
  const auto refuse = [&](const char* which, const char* why, const char* fix) {
    throw Error(
        ErrorKind::invalid_argument,
        {.what = cat(which, " is passed where a plain number is wanted"), .where = text(CallSite().line()), .why = why, .fix = fix});
  };
  if (is_tensor(o) && as_tensor(o).is_symbolic())
    refuse("a tensor of a graph", "such a number is part of the function that is traced", "pass a Python number");
  if (is_recorded(value))
    refuse("a tensor that is differentiated", "no gradient flows through a plain number: the derivative would lack this part",
           "pass float(x), if it is meant as a constant");
  const double number = PyFloat_AsDouble(o);
  if (number == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    throw_type_error(cat(shown(value), " is no number"), "a plain number is wanted here", "pass a float");
  }
  return number;
}

}  // namespace lamina::python
