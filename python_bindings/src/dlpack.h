// DLPack: shares memory between tensors and other libraries' arrays.
#pragma once
#include "python_bindings/src/convert.h"

namespace lamina::python {

// to_copy: the tensor is copied afterwards; errors then say so.
Tensor tensor_from_dlpack(const nb::object& array, bool to_copy = false);
// tensor.__dlpack__(): a view that keeps the memory alive. It is marked read-only if the consumer supports that (max_version).
nb::object dlpack_capsule(const Tensor& tensor, nb::handle max_version, nb::handle device, nb::handle copy);

// tensor.__dlpack_device__()
nb::tuple dlpack_device(const Tensor& tensor);

}  // namespace lamina::python
