// Row statistics for softmax and cross entropy: the maximum, and the sum of exp(x - maximum).
#pragma once
#include "kernels/cuda/element.h"
#include "kernels/shared/scalar_math.h"

namespace lamina::kernels::cuda {

// Who has a row: a thread, the lanes of a warp, or the threads of a block, all of which must call the functions below.
enum class By { thread, warp, block };
// By the shape alone. Neighbouring rows that are adjacent in memory have a thread each, so that a warp's reads coalesce, if there are
// enough of them or they are short.
inline By row_owner(int64_t rows, int64_t length, int64_t stride) {
  constexpr int64_t many_rows = 32768, short_row = 256, long_row = 2048;
  if (stride >= int64_t(kWarp) && (rows >= many_rows || length <= short_row)) return By::thread;
  return length >= long_row ? By::block : By::warp;
}
inline LaunchShape over_rows(By by, int64_t rows) {
  return by == By::thread ? over(rows) : by == By::warp ? over_warps(rows) : over_blocks(rows);
}
template <By by>
LAMINA_DEVICE int64_t first_row() {
  return by == By::thread ? first_element() : by == By::warp ? first_warp() : int64_t(block_index());
}
template <By by>
LAMINA_DEVICE int64_t row_step() {
  return by == By::thread ? all_threads() : by == By::warp ? all_warps() : int64_t(block_count());
}

// A thread's elements of a row.
template <By by>
struct Row {
  static constexpr int64_t step = by == By::thread ? 1 : by == By::warp ? kWarp : kThreads;
  int64_t first, end;
  LAMINA_DEVICE explicit Row(int64_t n) : first(by == By::thread ? 0 : by == By::warp ? lane() : thread_index()), end(n) {}
};
template <By by, class T, class Join>
LAMINA_DEVICE T joined(T v, Join join) {
  if constexpr (by != By::thread)
    for (unsigned bits = kWarp / 2; bits; bits /= 2) v = join(v, shuffle_xor(v, bits));
  if constexpr (by == By::block) {
    LAMINA_SHARED(T, of_warps, kThreads / kWarp);
    sync_block();  // all have read the last ones
    if (lane() == 0) of_warps[warp_index()] = v;
    sync_block();
    v = of_warps[0];
    for (unsigned w = 1; w < kThreads / kWarp; ++w) v = join(v, of_warps[w]);
  }
  return v;
}

// The maximum of a row, and the sum of exp(x - maximum).
template <By by, class T>
LAMINA_DEVICE void measure(const T* x, int64_t n, int64_t stride, compute_t<T>& high, double& sum) {
  using C = compute_t<T>;
  const Row<by> row(n);
  high = -C(scalar::wide::infinity());
  for (int64_t i = row.first; i < row.end; i += row.step) {
    const C v = widen(x[i * stride]);
    high = v > high ? v : high;
  }
  high = joined<by>(high, [](C a, C b) { return b > a ? b : a; });
  sum = 0;
  for (int64_t i = row.first; i < row.end; i += row.step) sum += double(scalar::exp(C(widen(x[i * stride]) - high)));
  sum = joined<by>(sum, [](double a, double b) { return a + b; });
}

}  // namespace lamina::kernels::cuda
