// Table of the loops of elementwise programs: one per operation and type, compiled once per instruction set. Only data: nothing here
// depends on the instruction set.
#pragma once
#include <cstdint>

#include "kernels/known_codes.h"
#include "kernels/shared/scalar_ops.h"
#include "runtime/core/dtype.h"

namespace lamina::kernels::cpu {

// Types in which elements are computed: bool and u8 are one byte, half types are floats. The wide unsigned ones are only converted.
enum class Compute : uint8_t { u8, i8, i16, i32, i64, f32, f64, u16, u32, u64 };
inline constexpr int kComputes = 10;

// out[i] = op(a[i], b[i], c[i]) for n consecutive elements, with as many operands as the op has. out may be an operand.
using Loop = void (*)(int64_t n, void* out, const void* a, const void* b, const void* c);

// A known program on n consecutive elements. An output may be an input.
using KnownLoop = void (*)(int64_t n, const float* const* in, const float* constants, float* const* out);

struct ElementwiseTable {
  Loop loops[kScalarOps][kComputes];  // null if the op does not support the type
  Loop casts[kComputes][kComputes];   // null from a type to itself
  Loop to_bool[kComputes];
  Loop to_half[kComputes];  // to float with rounding to odd, before rounding to a half type; null from float
  Loop f16_to_f32, f32_to_f16, bf16_to_f32, f32_to_bf16;
  Loop round_f16, round_bf16;  // rounds floats to the half type's nearest value, stored as float
  Loop fill[4];                // out[i] = a[0], for elements of 1, 2, 4 and 8 bytes
  // Two operations in one loop: out = (a p b) q c, or with `turned` c q (a p b). [is f64][p][q][turned], p and q as in kPaired.
  Loop pairs[2][3][3][2];
  KnownLoop known[kKnownCodes];
};
inline constexpr ScalarOp kPaired[] = {ScalarOp::add, ScalarOp::sub, ScalarOp::mul};

const ElementwiseTable& elementwise_table();  // for config::cpu_isa()

constexpr Compute compute_of(DType d) {
  switch (d) {
    case DType::boolean:
    case DType::u8: return Compute::u8;
    case DType::i8: return Compute::i8;
    case DType::i16: return Compute::i16;
    case DType::i32: return Compute::i32;
    case DType::i64: return Compute::i64;
    case DType::f64: return Compute::f64;
    case DType::u16: return Compute::u16;
    case DType::u32: return Compute::u32;
    case DType::u64: return Compute::u64;
    default: return Compute::f32;
  }
}
constexpr int size_of(Compute c) {
  constexpr int sizes[] = {1, 1, 2, 4, 8, 4, 8, 2, 4, 8};
  return sizes[int(c)];
}

namespace scalar {
extern const ElementwiseTable elementwise_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const ElementwiseTable elementwise_table;
}
namespace avx512 {
extern const ElementwiseTable elementwise_table;
}
#endif

}  // namespace lamina::kernels::cpu
