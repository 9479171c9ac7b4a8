// One warp per row, in three passes. If neighbouring rows are adjacent in memory, one thread per row, so that a warp's reads coalesce. Sums
// in double. Memory-bound for rows that fit a cache.
#include "kernels/softmax.h"

#include "kernels/cuda/softmax_row.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

template <class T, bool log, bool by_warp>
LAMINA_KERNEL(256)
softmax_rows(const T* x, T* y, Line line) {
  using C = compute_t<T>;
  const int64_t rows = line.outer * line.inner;
  for (int64_t r = by_warp ? first_warp() : first_element(); r < rows; r += by_warp ? all_warps() : all_threads()) {
    const int64_t at = r / line.inner * line.length * line.inner + r % line.inner;
    C high;
    double sum;
    measure<by_warp>(x + at, line.length, line.inner, high, sum);
    const Row<by_warp> row(line.length);
    const C scale = log ? C(scalar::log(sum)) : C(sum);
    for (int64_t i = row.first; i < row.end; i += row.step) {
      const C v = widen(x[at + i * line.inner]) - high;
      y[at + i * line.inner] = narrow<T>(log ? v - scale : scalar::exp(v) / scale);
    }
  }
}

template <bool log, class T>
void run(Stream& stream, const View& x, const View& y, int axis) {
  const Line line = line_of(x, axis);
  const int64_t rows = line.outer * line.inner;
  if (rows == 0 || line.length == 0) return;
  if (line.inner >= int64_t(kWarp))
    launch<softmax_rows<T, log, false>>(stream, over(rows), x.as<const T>(), y.as<T>(), line);
  else
    launch<softmax_rows<T, log, true>>(stream, over_warps(rows), x.as<const T>(), y.as<T>(), line);
}

}  // namespace

template <class T>
void softmax(Stream& stream, const View& x, const View& y, int axis) {
  run<false, T>(stream, x, y, axis);
}
template <class T>
void log_softmax(Stream& stream, const View& x, const View& y, int axis) {
  run<true, T>(stream, x, y, axis);
}

namespace {
const GpuKernels<LAMINA_FLOATING(softmax), LAMINA_FLOATING(log_softmax)> registered;
}

}  // namespace lamina::kernels::cuda
