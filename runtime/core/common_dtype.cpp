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
int bits(DType d) { return d == DType::boolean ? 1 : int(8 * size_of(d)) - (is_signed(d) ? 1 : 0); }
int kind(DType d) { return d == DType::boolean ? 0 : is_integer(d) ? 1 : is_floating(d) ? 2 : 3; }

DType common_integer(DType a, DType b) {
  if (is_signed(a) == is_signed(b)) return size_of(a) < size_of(b) ? b : a;
  const DType of_signed = is_signed(a) ? a : b, of_unsigned = is_signed(a) ? b : a;
  for (const DType d : {DType::i16, DType::i32, DType::i64})
    if (size_of(d) >= size_of(of_signed) && size_of(d) > size_of(of_unsigned))
      return size_of(of_signed) > size_of(of_unsigned) ? of_signed : d;
  return DType::f64;
}

}  // namespace

DType common_dtype(DType a, DType b) {
  if (kind(a) > kind(b)) std::swap(a, b);
  if (a == b || a == DType::boolean) return b;
  if (is_integer(b)) return common_integer(a, b);
  if (is_complex(b)) {
    const DType part = common_dtype(is_complex(a) ? part_of(a) : a, part_of(b));
    return complex_of(part);
  }
  if (is_floating(a)) return size_of(a) == size_of(b) ? DType::f32 : size_of(a) < size_of(b) ? b : a;
  for (const DType d : {b, DType::f32, DType::f64})
    if (size_of(d) >= size_of(b) && digits(d) >= bits(a)) return d;
  return DType::f64;
}

std::optional<DType> operation_dtype(Mixing mixing, std::span<const OperandDType> operands) {
  using Strength = OperandDType::Strength;
  bool any_number = false;
  for (const OperandDType& o : operands) any_number |= o.dtype != DType::boolean;
  std::optional<DType> chosen;
  Strength by = Strength::tensor;
  for (const Strength strength : {Strength::tensor, Strength::array, Strength::number}) {
    for (const auto& [own, dtype] : operands) {
      if (own != strength || (mixing != Mixing::strict && any_number && dtype == DType::boolean)) continue;
      if (!chosen) {
        chosen = dtype, by = own;
      } else if (own == Strength::tensor) {
        if (dtype != *chosen) return {};
      } else if (own == Strength::array) {
        if (kind(dtype) == 3 && kind(*chosen) == 2) {
          chosen = by == Strength::array ? common_dtype(dtype, *chosen) : complex_of(*chosen);
          continue;
        }
        if (kind(dtype) == 2 && kind(*chosen) == 3 && by == Strength::tensor) continue;
        if (kind(dtype) != kind(*chosen)) return {};
        if (by == Strength::array) chosen = common_dtype(dtype, *chosen);
      } else if (kind(dtype) > kind(*chosen)) {  // a float next to integers, or a number next to bools
        if (*chosen == DType::boolean || (by != Strength::number && mixing != Mixing::fractions)) return {};
        chosen = dtype;
      } else if (kind(dtype) == 0 && kind(*chosen) != 0) {
        return {};
      } else if (by == Strength::number) {
        chosen = std::max(*chosen, dtype);
      }
    }
  }
  if (chosen && mixing == Mixing::fractions && !is_floating(*chosen) && !is_complex(*chosen)) chosen = DType::f32;
  return chosen;
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
