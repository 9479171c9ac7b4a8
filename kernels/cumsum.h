// Running sums along one axis of a contiguous tensor, in order from the first element (from the last, when reverse). exclusive leaves the
// element itself out: the first sum is 0. f16 and bf16 are added in float and rounded for each result; integers wrap; bool sums to i64.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

LAMINA_API void cumsum(Stream&, const View& x, const View& out, int axis, bool reverse, bool exclusive);

}  // namespace lamina::kernels::cpu
