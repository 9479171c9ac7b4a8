// Tensors and other libraries' arrays in one memory.
#pragma once
#include "python_bindings/src/convert.h"

namespace lamina::python {

Tensor tensor_from_dlpack(const nb::object& array);
// What tensor.__dlpack__() gives: a view that keeps the memory alive, marked read only where the taker understands that (max_version).
nb::object dlpack_capsule(const Tensor& tensor, nb::handle max_version, nb::handle device, nb::handle copy);

}  // namespace lamina::python
