// Functions that create tensors, on the current DeviceScope's device. While tracing, the tensors become constants of the graph.
#pragma once
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "graph/frontend/tensor.h"

namespace lamina {

// Row-major values; the shape must have as many. tensor({1, 2}, {1, 2}) is f32.
LAMINA_API Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::f32);
LAMINA_API Tensor tensor_from(const void* values, size_t count, const TensorType& type);
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape) {
  return tensor_from(values.data(), values.size(), {dtype_of<T>(), shape});
}
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, {int64_t(values.size())});
}
LAMINA_API Tensor scalar(double x, DType dtype = DType::f32);
LAMINA_API Tensor scalar_i(int64_t n, DType dtype = DType::i32);
LAMINA_API Tensor scalar_b(bool b);
// A tensor in host memory whose elements fill(bytes) writes. Throws out_of_memory before fill() is called.
LAMINA_API Tensor made_on_host(const TensorType& type, const std::function<void(std::span<std::byte>)>& fill);
// A copy of a host array of byte_size(type) bytes. A byte of a bool other than 0 is true.
LAMINA_API Tensor constant(const void* data, const TensorType& type);

LAMINA_API Tensor zeros(const Shape& shape, DType dtype = DType::f32);
LAMINA_API Tensor ones(const Shape& shape, DType dtype = DType::f32);
LAMINA_API Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
LAMINA_API Tensor zeros_like(const Operand& x);
LAMINA_API Tensor zeros_like(const Operand& x, DType dtype);
LAMINA_API Tensor ones_like(const Operand& x);
LAMINA_API Tensor ones_like(const Operand& x, DType dtype);
// start, start + step, ... below stop (above it when step is negative).
LAMINA_API Tensor arange(double start, double stop, double step, DType dtype);
LAMINA_API Tensor arange(int64_t start, int64_t stop, int64_t step = 1, DType dtype = DType::i32);
LAMINA_API Tensor arange(int64_t stop);

}  // namespace lamina
