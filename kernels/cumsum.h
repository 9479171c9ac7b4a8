// Cumulative sums along one axis of a contiguous tensor, in order from the first element (reverse: from the last). exclusive: without the
// element itself, so the first sum is 0. Floating types are summed in double and each result is rounded; integers wrap; bool sums to i64.
#pragma once
#include <cstdint>
#include <type_traits>

#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels {

// The types of sums (unsigned, to wrap) and of results.
template <class T>
struct CumsumTypes {
  using made = double;
  using stored = T;
};
template <class T>
  requires std::is_integral_v<T>
struct CumsumTypes<T> {
  using made = std::make_unsigned_t<T>;
  using stored = T;
};
template <>
struct CumsumTypes<bool> {
  using made = uint64_t;
  using stored = int64_t;
};

}  // namespace lamina::kernels

namespace lamina::kernels::cpu {

LAMINA_API void cumsum(Stream&, const View& x, const View& out, int axis, bool reverse, bool exclusive);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
// Floating types on axes longer than 128 with fewer than 32,768 parallel lines: sums of runs of 128 are computed first, then their
// cumulative sums in the same way, then those of the runs' elements.
void cumsum(Stream&, const View& x, const View& out, int axis, bool reverse, bool exclusive);
}  // namespace lamina::kernels::cuda
