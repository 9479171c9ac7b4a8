// The border: every error that leaves the module is worded by Lamina, never by nanobind. See border.cpp.
#pragma once
#include "python_bindings/src/bindings.h"

namespace lamina::python {

// Wraps all functions, methods, properties and classes of a module. Later additions are not wrapped.
void bind_border(nb::module_& m);

}  // namespace lamina::python
