#include "kernels/softmax.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cpu/shared_out.h"
#include "kernels/cpu/softmax_table.h"
#include "runtime/core/config.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kSoftmaxWorthThreads = 16 * 1024;  // elements

const SoftmaxTable& softmax_table() {
#ifdef LAMINA_HAS_AVX
  const std::string& isa = config::cpu_isa();
  if (isa == "avx512") return avx512::softmax_table;
  if (isa == "avx2") return avx2::softmax_table;
#endif
  return scalar::softmax_table;
}

template <class T>
const SoftmaxLoops<T>& loops_of(bool log) {
  if constexpr (sizeof(T) == 4)
    return softmax_table().f32[log];
  else
    return softmax_table().f64[log];
}

// `count` neighbouring columns of n elements.
template <bool log, class T>
void some_columns(const T* x, T* y, int64_t n, int64_t stride, int64_t count) {
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    const SoftmaxLoops<T>& loops = loops_of<T>(log);
    if (stride == 1)
      loops.row(x, y, n);
    else
      loops.columns(x, y, n, stride, count);
  } else {  // half types, in float
    std::vector<float> wide(static_cast<size_t>(n));
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t i = 0; i < n; ++i) wide[size_t(i)] = float(x[i * stride + j]);
      loops_of<float>(log).row(wide.data(), wide.data(), n);
      for (int64_t i = 0; i < n; ++i) y[i * stride + j] = T(wide[size_t(i)]);
    }
  }
}

template <bool log, class T>
void each_row(Stream& stream, const View& x, const View& y, int axis) {
  int64_t outer = 1, n = x.shape[axis], inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.shape[i];
  for (int i = axis + 1; i < x.rank; ++i) inner *= x.shape[i];
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end;) {
      const int64_t at = r / inner * n * inner + r % inner, count = std::min({kSoftmaxColumns, inner - r % inner, end - r});
      some_columns<log>(x.as<const T>() + at, y.as<T>() + at, n, inner, count);
      r += count;
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
  for (int64_t r = 0; r < rows; ++r) loops_of<float>(false).row(x + r * n, y + r * n, n);
}
void log_softmax_rows(const float* x, float* y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) loops_of<float>(true).row(x + r * n, y + r * n, n);
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
