// Element-by-element iteration over tensors, for references.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/core/shape.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {

using Index = std::vector<int64_t>;

// Calls f(index) for every index of the shape, in row-major order.
template <class F>
void each_index(const Shape& shape, F f) {
  const std::vector<int64_t> full = numbers(shape);
  Index index(full.size());
  for (int64_t left = size_of(shape).number(); left > 0; --left) {
    f(index);
    for (size_t a = full.size(); a-- > 0 && ++index[a] == full[a];) index[a] = 0;
  }
}

// The element's row-major position.
inline int64_t place(const Shape& shape, const Index& index) {
  int64_t at = 0;
  for (size_t a = 0; a < shape.size(); ++a) at = at * shape[a].number() + index[a];
  return at;
}

// One result whose element at each index is f(index).
template <class F>
std::vector<std::vector<double>> made(const Shape& shape, F f) {
  std::vector<double> out;
  each_index(shape, [&](const Index& index) { out.push_back(f(index)); });
  return {out};
}

inline const std::vector<DType> kAnyDType{DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8,
                                          DType::i8,  DType::i16, DType::i32, DType::i64,  DType::boolean};

}  // namespace lamina::tests
