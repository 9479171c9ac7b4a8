// tree_sum: adds arrays of equal length element by element, in an order that the caller fixes. After array i has been pushed on a stack,
// the stack's two uppermost entries are replaced by their sum joins[i] times; at the end one entry is left, the result.
#pragma once
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "runtime/core/dtype.h"
#include "runtime/core/error.h"
#include "runtime/core/export.h"
#include "runtime/device/stream.h"

namespace lamina {

struct TreeSum {
  DType from = DType::f32, to = DType::f32;  // equal; or one of them is f32 and the other a half type, or both are the same half type
  int64_t count = 0;
  const uint8_t* joins = nullptr;  // one per array
};

// The type in which elements are added: half types in f32; integers wrap, so without signs.
template <class T>
struct AddedAs {
  using type = compute_t<T>;
};
template <class T>
  requires std::is_integral_v<T>
struct AddedAs<T> {
  using type = std::make_unsigned_t<T>;
};

// The joins of a sum that adds one array after the other.
inline std::vector<uint8_t> one_by_one(size_t arrays) {
  std::vector<uint8_t> joins(arrays, 1);
  joins[0] = 0;
  return joins;
}

// Calls f<From, To, AddedAs>() for the types of a sum.
template <class F>
void with_types_of(const TreeSum& sum, F f) {
  if (sum.from == sum.to)
    return with_dtype(sum.from, [&]<class T>() {
      if constexpr (std::is_same_v<T, bool>)
        internal_error("tree_sum of bool");
      else
        f.template operator()<T, T, typename AddedAs<T>::type>();
    });
  if (sum.from == DType::f16 && sum.to == DType::f32) return f.template operator()<f16, float, float>();
  if (sum.from == DType::bf16 && sum.to == DType::f32) return f.template operator()<bf16, float, float>();
  if (sum.from == DType::f32 && sum.to == DType::f16) return f.template operator()<float, f16, float>();
  if (sum.from == DType::f32 && sum.to == DType::bf16) return f.template operator()<float, bf16, float>();
  internal_error(cat("tree_sum from ", sum.from, " to ", sum.to));
}

// The most entries that the stack has. Throws internal if the arrays are no whole tree.
LAMINA_API int stack_depth(const TreeSum& sum, size_t arrays);

namespace cpu {
// Half types are added in f32 and rounded once, at the end. Integers wrap. The result may be one of the arrays, but not overlap one
// otherwise.
LAMINA_API void tree_sum(const TreeSum& sum, std::span<const void* const> arrays, void* result);
}  // namespace cpu

namespace kernels::cuda {
// The same bits; arrays and result are on the stream's device.
void tree_sum(Stream& stream, const TreeSum& sum, std::span<const void* const> arrays, void* result);
}  // namespace kernels::cuda

}  // namespace lamina
