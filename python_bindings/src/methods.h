// Functions of lm that are also methods of Tensor and Variable.
#pragma once
#include "python_bindings/src/convert.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {

// One integer: an int, a NumPy integer, or a tensor without axes. Throws type or invalid_argument.
int64_t to_whole(nb::handle value);
// Whether a value is a single number.
bool is_one_number(nb::handle value);

// Adds f(self, ...) to lm.Tensor and lm.Variable; self is a handle.
template <class F, class... Extra>
void add_method(nb::module_& m, const char* name, F f, const Extra&... extra) {
  for (const char* type : {"Tensor", "Variable"})
    nb::cpp_function_def(f, nb::scope(m.attr(type)), nb::name(name), nb::is_method(), extra...);
}
// The same as a property.
template <class F>
void add_property(nb::module_& m, const char* name, F f, const char* doc) {
  const nb::object property = nb::module_::import_("builtins").attr("property");
  for (const char* type : {"Tensor", "Variable"})
    m.attr(type).attr(name) = property(nb::cpp_function(f, nb::name(name), nb::is_method()), nb::none(), nb::none(), doc);
}
// Adds a function to lm and a method of the same name.
template <class F, class... Extra>
void add_both(nb::module_& m, const char* name, F f, const char* doc, const Extra&... extra) {
  Functions(m).def(name, f, nb::arg("x"), extra..., doc);
  add_method(m, name, f, extra..., doc);
}

}  // namespace lamina::python
