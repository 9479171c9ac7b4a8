// Three passes over a row, by a warp, a block or a thread. Sums in double. Memory-bound for rows that fit a cache.
#include "kernels/softmax.h"

#include "kernels/cuda/softmax_row.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

template <class T, bool log, By by>
LAMINA_KERNEL(256)
softmax_rows(const T* x, T* y, Line line) {
  using C = compute_t<T>;
  const int64_t rows = line.outer * line.inner;
  for (int64_t r = first_row<by>(); r < rows; r += row_step<by>()) {
    const int64_t at = r / line.inner * line.length * line.inner + r % line.inner;
    C high;
    double sum;
    measure<by>(x + at, line.length, line.inner, high, sum);
    const Row<by> row(line.length);
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
  const By by = row_owner(rows, line.length, line.inner);
  const LaunchShape shape = over_rows(by, rows);
  switch (by) {
    case By::thread: return launch<softmax_rows<T, log, By::thread>>(stream, shape, x.as<const T>(), y.as<T>(), line);
    case By::warp: return launch<softmax_rows<T, log, By::warp>>(stream, shape, x.as<const T>(), y.as<T>(), line);
    case By::block: return launch<softmax_rows<T, log, By::block>>(stream, shape, x.as<const T>(), y.as<T>(), line);
  }
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
