#include "graph/nn/host_tensor.h"

#include <cstring>
#include <vector>

#include "runtime/device/buffer.h"

namespace lamina::nn {

Tensor host_tensor(std::span<const double> values, const TensorType& type, Device device) {
  std::vector<std::byte> bytes(values.size() * size_of(type.dtype));
  with_dtype(type.dtype, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      const T converted = element_of<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &converted, sizeof(T));
    }
  });
  return {copy_from_host(device, bytes.data(), bytes.size()), type};
}

Tensor host_zeros(const TensorType& type, Device device) {
  const std::vector<std::byte> bytes(static_cast<size_t>(byte_size(type)));
  return {copy_from_host(device, bytes.data(), bytes.size()), type};
}

}  // namespace lamina::nn
