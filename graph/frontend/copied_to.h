// The bytes of a tensor on another device, of which no tape sees anything: for what the library moves itself. Users have Tensor::to.
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
