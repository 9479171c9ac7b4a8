// Literal: the value of a constant. Shared and immutable.
#pragma once
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/core/type.h"

namespace lamina::ir {

struct Literal {
  TensorType type;
  std::shared_ptr<const std::vector<std::byte>> bytes;  // row-major; null means all zeros

  LAMINA_API static Literal from(const TensorType& type, const void* data);
  // Every element is this number, converted to the dtype.
  LAMINA_API static Literal filled(const TensorType& type, double value);
  template <class T>
  static Literal of(const Shape& shape, const std::vector<T>& values) {
    return from({dtype_of<T>(), shape}, values.data());
  }
  LAMINA_API bool operator==(const Literal& other) const;
  // Whether every element is exactly this number.
  LAMINA_API bool is_filled_with(double value) const;
  LAMINA_API double first() const;  // the first element, as a double
};

}  // namespace lamina::ir
