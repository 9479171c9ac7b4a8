// Shared by the files of the Python module: one bind function per file, and the translation of C++ errors to Python exceptions.
#pragma once
#include <new>

#include <nanobind/nanobind.h>

#include "python_bindings/src/gil.h"
#include "runtime/core/error.h"

namespace nb = nanobind;

namespace lamina::python {

void bind_errors(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_variable(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_reductions(nb::module_& m);
void bind_math(nb::module_& m);
void bind_function(nb::module_& m);
void bind_indexing(nb::module_& m);
void bind_inspect(nb::module_& m);
void bind_lengths(nb::module_& m);
void bind_tape(nb::module_& m);
void bind_vmap(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_random(nb::module_& m);
void bind_shape_functions(nb::module_& m);
void bind_linalg(nb::module_& root);
void bind_sorting(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_image(nb::module_& m);
void bind_sequence_layers(nb::module_& m);
void bind_data(nb::module_& m);
void bind_distributed(nb::module_& m);
void bind_io(nb::module_& m);
void bind_control_flow(nb::module_& m);
void bind_reporting(nb::module_& m);

// Sets the Python exception for an Error, of its kind's class in lamina.errors.
void set_python_error(const Error& error) noexcept;
void set_out_of_memory() noexcept;
// Throws the current Python exception as a C++ one.
[[noreturn]] void throw_python_error();
[[noreturn]] void throw_type_error(const std::string& what, const std::string& why, const std::string& fix);

// The error for an `o` that was made without its type's constructor, or has another type than a method takes.
[[noreturn]] void throw_not_made(nb::handle o, nb::handle type);
// The C++ object in a Python object, checked, because a derived class may be used before super().__init__().
template <class T>
T& instance(nb::handle o) {
  const nb::handle type = nb::type<T>();
  if (!nb::isinstance<T>(o) || !nb::inst_ready(o)) throw_not_made(o, type);
  return *nb::inst_ptr<T>(o);
}

// Runs f for a slot of a Python type. C++ exceptions become Python's, and the result is null.
template <class R = PyObject*, class F>
R guarded(F&& f, R failure = {}) noexcept {
  try {
    return f();
  } catch (nb::python_error& e) {
    if (e.type().is(PyExc_MemoryError))
      set_out_of_memory();
    else
      e.restore();
  } catch (const Error& e) {
    set_python_error(e);
  } catch (const std::bad_alloc&) {
    set_out_of_memory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return failure;
}

}  // namespace lamina::python
