// host_tensor: numbers computed on the host as a concrete tensor, also while something is traced.
#pragma once
#include <span>

#include "graph/frontend/tensor.h"

namespace lamina::nn {

// values, row-major, converted to type's dtype.
Tensor host_tensor(std::span<const double> values, const TensorType& type, Device device);
Tensor host_zeros(const TensorType& type, Device device);

}  // namespace lamina::nn
