#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/shared_out.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kSoftmaxWorthThreads = 16 * 1024;  // elements

// One row whose elements are `stride` apart. Sums in row order, in double.
template <bool log, class T>
void softmax_row(const T* x, T* y, int64_t n, int64_t stride) {
  using C = compute_t<T>;
  C high = -std::numeric_limits<C>::infinity();
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) high = std::max(high, C(x[i * stride]));
  if constexpr (!log && sizeof(T) >= sizeof(C)) {  // y can hold the exponentials
    for (int64_t i = 0; i < n; ++i) sum += double(y[i * stride] = std::exp(x[i * stride] - high));
    for (int64_t i = 0; i < n; ++i) y[i * stride] /= C(sum);
  } else {
    for (int64_t i = 0; i < n; ++i) sum += double(std::exp(C(x[i * stride]) - high));
    const C scale = C(log ? std::log(sum) : sum);
    for (int64_t i = 0; i < n; ++i) {
      const C v = C(x[i * stride]) - high;
      y[i * stride] = T(log ? v - scale : std::exp(v) / scale);
    }
  }
}

template <bool log, class T>
void each_row(Stream& stream, const View& x, const View& y, int axis) {
  int64_t outer = 1, n = x.shape[axis], inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.shape[i];
  for (int i = axis + 1; i < x.rank; ++i) inner *= x.shape[i];
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r / inner * n * inner + r % inner;
      softmax_row<log>(x.as<const T>() + at, y.as<T>() + at, n, inner);
    }
  };
  share_out(stream, outer * inner, x.size(), kSoftmaxWorthThreads, rows);
}

}  // namespace

template <class T>
void softmax(Stream& stream, const View& x, const View& y, int axis) {
  each_row<false, T>(stream, x, y, axis);
}
template <class T>
void log_softmax(Stream& stream, const View& x, const View& y, int axis) {
  each_row<true, T>(stream, x, y, axis);
}

void softmax_rows(const float* x, float* y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) softmax_row<false>(x + r * n, y + r * n, n, 1);
}
void log_softmax_rows(const float* x, float* y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) softmax_row<true>(x + r * n, y + r * n, n, 1);
}

#define LAMINA_INSTANTIATE(T)                                       \
  template void softmax<T>(Stream&, const View&, const View&, int); \
  template void log_softmax<T>(Stream&, const View&, const View&, int);
LAMINA_INSTANTIATE(f16)
LAMINA_INSTANTIATE(bf16)
LAMINA_INSTANTIATE(float)
LAMINA_INSTANTIATE(double)
#undef LAMINA_INSTANTIATE

}  // namespace lamina::kernels::cpu
