// tree_sum: adds arrays of equal length element by element, in an order that the caller fixes. After array i has been pushed on a stack,
// the stack's two uppermost entries are replaced by their sum joins[i] times; at the end one entry is left, the result.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/core/dtype.h"
#include "runtime/core/export.h"

namespace lamina {

struct TreeSum {
  DType from = DType::f32, to = DType::f32;  // equal; or one of them is f32 and the other a half type, or both are the same half type
  int64_t count = 0;
  const uint8_t* joins = nullptr;  // one per array
};

namespace cpu {
// Half types are added in f32 and rounded once, at the end. Integers wrap. The result may be one of the arrays, but not overlap one
// otherwise.
LAMINA_API void tree_sum(const TreeSum& sum, std::span<const void* const> arrays, void* result);
}  // namespace cpu

}  // namespace lamina
