#include "graph/ir/literal.h"

#include <cmath>

#include "runtime/core/error.h"

namespace lamina::ir {

Literal Literal::from(const TensorType& type, const void* data) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size_t(byte_size(type)));
  if (!bytes->empty()) std::memcpy(bytes->data(), data, bytes->size());
  return {type, std::move(bytes)};
}

Literal Literal::filled(const TensorType& type, double value) {
  int64_t n = size_of(type.shape).number();
  auto bytes = std::make_shared<std::vector<std::byte>>(size_t(byte_size(type)));
  const bool complex = is_complex(type.dtype);
  with_dtype(complex ? part_of(type.dtype) : type.dtype, [&]<class T>() {
    T* out = reinterpret_cast<T*>(bytes->data());
    const T element = element_of<T>(value);
    for (int64_t i = 0; i < n; ++i) out[complex ? 2 * i : i] = element;
  });
  return {type, std::move(bytes)};
}

bool Literal::operator==(const Literal& other) const {
  if (!(type == other.type)) return false;
  if (bytes == other.bytes) return true;
  if (!bytes || !other.bytes) return is_filled_with(0) && other.is_filled_with(0);
  return *bytes == *other.bytes;
}

bool Literal::is_filled_with(double value) const {
  if (!bytes) return value == 0;
  if (is_complex(type.dtype)) return false;  // ops on complex numbers are those on their parts
  return with_dtype(type.dtype, [&]<class T>() {
    const T* data = reinterpret_cast<const T*>(bytes->data());
    for (size_t i = 0; i < bytes->size() / sizeof(T); ++i) {
      double x = double(data[i]);
      if constexpr (sizeof(T) == 8 && std::is_integral_v<T>)  // a double has 53 bits
        if (!(x == value) || x >= 0x1p63 || T(x) != data[i]) return false;
      if (!(x == value) || std::signbit(x) != std::signbit(value)) return false;
    }
    return true;
  });
}

double Literal::first() const {
  if (!bytes) return 0;
  if (bytes->empty()) internal_error("the first element of an empty constant");
  return with_dtype(type.dtype, [&]<class T>() { return double(*reinterpret_cast<const T*>(bytes->data())); });
}

}  // namespace lamina::ir
