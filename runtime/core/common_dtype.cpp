#include "runtime/core/common_dtype.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "runtime/core/error.h"

namespace lamina {
namespace {

// A floating dtype holds every integer up to 2 to this power.
int digits(DType d) {
  switch (d) {
    case DType::bf16: return 8;
    case DType::f16: return 11;
    case DType::f32: return 24;
    default: return 53;
  }
}
// Bits of an integer dtype's largest magnitude.
int bits(DType d) { return d == DType::boolean ? 1 : d == DType::u8 ? 8 : int(8 * size_of(d)) - 1; }

}  // namespace

DType common_dtype(DType a, DType b) {
  if (a > b) std::swap(a, b);  // integers, by size, then floating dtypes
  if (a == b || a == DType::boolean) return b;
  if (a == DType::u8 && b == DType::i8) return DType::i16;
  if (!is_floating(b)) return b;
  if (is_floating(a)) return a == DType::f16 && b == DType::bf16 ? DType::f32 : b;
  for (const DType d : {b, DType::f32, DType::f64})
    if (d >= b && digits(d) >= bits(a)) return d;
  return DType::f64;
}

std::string same_dtype_advice(DType a, DType b) {
  const DType both = common_dtype(a, b);
  if (both == a || both == b) return cat("convert one of them: lm.astype(x, lm.", numpy_name(both), ")");
  std::string text = cat("convert both: lm.astype(x, lm.", numpy_name(both), ")");
  if (is_floating(a) != is_floating(b)) {
    const DType floating = is_floating(a) ? a : b;
    text += cat("; or the integers alone: lm.", numpy_name(floating), " is exact up to 2**", digits(floating));
  }
  return text;
}

}  // namespace lamina
