// Functions that create tensors, on the current DeviceScope's device. While tracing, the tensors become constants of the graph.
#pragma once
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "graph/frontend/tensor.h"

namespace lamina {

// Row-major values; the shape must have as many. tensor({1, 2}, {1, 2}) is f32. Throws type for a fraction or a NaN and invalid_argument
// for a number that an integer dtype does not hold; so do scalar, scalar_i and full.
LAMINA_API Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::f32,
                         CallSite at = std::source_location::current());
LAMINA_API Tensor tensor_from(const void* values, size_t count, const TensorType& type, CallSite at = std::source_location::current());
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape, CallSite at = std::source_location::current()) {
  if constexpr (std::is_same_v<T, bool>) {  // its elements are bits
    const std::vector<char> bytes(values.begin(), values.end());
    return tensor_from(bytes.data(), bytes.size(), {DType::boolean, shape}, at);
  } else {
    return tensor_from(values.data(), values.size(), {dtype_of<T>(), shape}, at);
  }
}
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, Shape{Dim(int64_t(values.size()))}, CallSite());
}
LAMINA_API Tensor scalar(double x, DType dtype = DType::f32, CallSite at = std::source_location::current());
LAMINA_API Tensor scalar_i(int64_t n, DType dtype = DType::i32, CallSite at = std::source_location::current());
LAMINA_API Tensor scalar_b(bool b);
// A tensor in host memory whose elements fill(bytes) writes. Throws out_of_memory before fill() is called.
LAMINA_API Tensor made_on_host(const TensorType& type, const std::function<void(std::span<std::byte>)>& fill);
// A copy of a host array of byte_size(type) bytes. A byte of a bool other than 0 is true.
LAMINA_API Tensor constant(const void* data, const TensorType& type, CallSite at = std::source_location::current());

LAMINA_API Tensor zeros(const Shape& shape, DType dtype = DType::f32);
LAMINA_API Tensor ones(const Shape& shape, DType dtype = DType::f32);
LAMINA_API Tensor full(const Shape& shape, double value, DType dtype = DType::f32, CallSite at = std::source_location::current());
LAMINA_API Tensor zeros_like(const Operand& x);
LAMINA_API Tensor zeros_like(const Operand& x, DType dtype);
LAMINA_API Tensor ones_like(const Operand& x);
LAMINA_API Tensor ones_like(const Operand& x, DType dtype);
// start, start + step, ... below stop (above it when step is negative).
LAMINA_API Tensor arange(double start, double stop, double step, DType dtype, CallSite at = std::source_location::current());
LAMINA_API Tensor arange(int64_t start, int64_t stop, int64_t step = 1, DType dtype = DType::i32,
                         CallSite at = std::source_location::current());
LAMINA_API Tensor arange(int64_t stop, CallSite at = std::source_location::current());
// Numbers of other types: arange(0, 10, 2, dtype::f32), arange(0, 1, 0.25, dtype::f64).
template <class A, class B, class C>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && std::is_arithmetic_v<C>)
Tensor arange(A start, B stop, C step, DType dtype, CallSite at = std::source_location::current()) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && std::is_integral_v<C>)
    return arange(int64_t(start), int64_t(stop), int64_t(step), dtype, at);
  else
    return arange(double(start), double(stop), double(step), dtype, at);
}

}  // namespace lamina
