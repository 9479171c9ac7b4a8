// Conversions for layers: initializers and activations from Python.
#pragma once
#include "graph/nn/activation.h"
#include "graph/nn/initializer.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

// From a name, an Initializer, or a Python callable (shape) -> array.
nn::Initializer to_initializer(nb::handle value);
// From a name, a function of a tensor, or None.
nn::Activation to_activation(nb::handle value);

}  // namespace lamina::python
