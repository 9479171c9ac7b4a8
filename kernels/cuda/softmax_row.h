// Row statistics for softmax and cross entropy: the maximum, and the sum of exp(x - maximum).
#pragma once
#include "kernels/cuda/element.h"
#include "kernels/shared/scalar_math.h"

namespace lamina::kernels::cuda {

// How a row is shared: among the lanes of a warp, or all of it by one thread.
template <bool by_warp>
struct Row {
  int64_t first, end, step;
  LAMINA_DEVICE explicit Row(int64_t n) : first(by_warp ? lane() : 0), end(n), step(by_warp ? kWarp : 1) {}
};
template <bool by_warp, class C>
LAMINA_DEVICE C largest(C v) {
  if constexpr (by_warp)
    for (unsigned bits = kWarp / 2; bits; bits /= 2) {
      const C other = shuffle_xor(v, bits);
      v = other > v ? other : v;
    }
  return v;
}
template <bool by_warp>
LAMINA_DEVICE double total(double v) {
  if constexpr (by_warp)
    for (unsigned bits = kWarp / 2; bits; bits /= 2) v += shuffle_xor(v, bits);
  return v;
}

// The maximum of a row, and the sum of exp(x - maximum).
template <bool by_warp, class T>
LAMINA_DEVICE void measure(const T* x, int64_t n, int64_t stride, compute_t<T>& high, double& sum) {
  using C = compute_t<T>;
  const Row<by_warp> row(n);
  high = -C(scalar::wide::infinity());
  for (int64_t i = row.first; i < row.end; i += row.step) {
    const C v = widen(x[i * stride]);
    high = v > high ? v : high;
  }
  high = largest<by_warp>(high);
  sum = 0;
  for (int64_t i = row.first; i < row.end; i += row.step) sum += double(scalar::exp(C(widen(x[i * stride]) - high)));
  sum = total<by_warp>(sum);
}

}  // namespace lamina::kernels::cuda
