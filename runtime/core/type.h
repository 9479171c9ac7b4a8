// TensorType: the dtype and shape of a value, before any data exists.
#pragma once
#include <ostream>
#include <string>
#include <string_view>

#include "runtime/core/dtype.h"
#include "runtime/core/shape.h"

namespace lamina {

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
  size_t rank() const { return shape.size(); }
};

LAMINA_API std::string text(const TensorType& type);  // "f32[2,n]"
LAMINA_API TensorType parse_type(std::string_view text);
LAMINA_API int64_t byte_size(const TensorType& type);  // the shape must be known; checks for overflow
inline std::ostream& operator<<(std::ostream& out, const TensorType& t) { return out << text(t); }

}  // namespace lamina
