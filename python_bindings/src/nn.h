// What the files that bind layers share: Python's ways to name an initializer and an activation.
#pragma once
#include "graph/nn/activation.h"
#include "graph/nn/initializer.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

// A name, an Initializer, or a Python callable (shape) -> array.
nn::Initializer to_initializer(nb::handle value);
// A name, a function of a tensor, or None.
nn::Activation to_activation(nb::handle value);

}  // namespace lamina::python
