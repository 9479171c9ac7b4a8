// Copies a tensor's bytes to another device without recording it on tapes: for the library's own transfers. Users call Tensor::to.
#pragma once
#include "graph/frontend/tensor.h"
#include "runtime/device/backend.h"

namespace lamina {

inline Tensor copied_to(const Tensor& t, Device device) {
  if (t.device() == device) return t;
  require_device(device);
  return Tensor(copy_to(device, t.concrete("a copy").buffer, size_t(byte_size(t.type()))), t.type_ref());
}

}  // namespace lamina
