// The dtype in which a function computes, the common dtype of two dtypes, and advice for error messages.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "runtime/core/dtype.h"
#include "runtime/core/export.h"

namespace lamina {

// The smallest dtype that holds every number of both. For i64 with a floating dtype none does: f64.
LAMINA_API DType common_dtype(DType a, DType b);
// What a function makes of operands of different dtypes.
enum class Mixing : uint8_t {
  strict,     // nothing: comparisons, selections, functions of bits
  numbers,    // arithmetic: a bool next to a number is 0 or 1 of the number's dtype
  fractions,  // the same, and integers and bools alone become f32: roots, quotients, means
};
// An operand's part in the choice of the dtype. Tensors decide; arrays of the host (NumPy's, pandas', lists) follow a tensor of their kind,
// integer or floating; numbers follow both. Of a number, dtype is boolean, i32 or i64, or f32: Python's bool, int, float.
struct OperandDType {
  enum class Strength : uint8_t { tensor, array, number } strength;
  DType dtype;
};
// The dtype in which a function computes; none when the operands do not mix.
LAMINA_API std::optional<DType> operation_dtype(Mixing mixing, std::span<const OperandDType> operands);
// Advice without loss of digits: "convert one of them: lm.astype(x, lm.int16)".
LAMINA_API std::string same_dtype_advice(DType a, DType b);

}  // namespace lamina
