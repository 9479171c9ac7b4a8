// host_tensor: makes a concrete tensor from numbers computed on the host, even while tracing.
#pragma once
#include <span>

#include "graph/frontend/tensor.h"

namespace lamina::nn {

// Row-major values, converted to type's dtype.
Tensor host_tensor(std::span<const double> values, const TensorType& type, Device device);
Tensor host_zeros(const TensorType& type, Device device);

}  // namespace lamina::nn
