// lm.profiler.
#pragma once
#include "python_bindings/src/bindings.h"

namespace lamina::python {

void bind_profiler(nb::module_& root);

}  // namespace lamina::python
