// No error leaves the module in nanobind's own words: see border.cpp.
#pragma once
#include "python_bindings/src/bindings.h"

namespace lamina::python {

// Puts the border around all functions, methods, properties and classes of a module. What is added later has none.
void bind_border(nb::module_& m);

}  // namespace lamina::python
