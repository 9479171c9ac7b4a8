#include "kernels/max_pool2d.h"

#include <algorithm>

#include "kernels/cpu/indices.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {
namespace {

constexpr double kElementsPerThread = 5e5;

template <class T>
struct Pool {
  const T* x;
  T* y;
  int64_t* index;
  const PoolSizes& s;

  void window(int64_t image, int64_t i, int64_t j) const {
    using C = compute_t<T>;
    const int64_t n = s.channels, top = i * s.stride_height - s.before_height, left = j * s.stride_width - s.before_width;
    const T* from = x + image * s.height * s.width * n;
    const int64_t at = ((image * s.out_height + i) * s.out_width + j) * n;
    bool first = true;
    for (int64_t row = std::max<int64_t>(0, top); row < std::min(s.height, top + s.window_height); ++row)
      for (int64_t column = std::max<int64_t>(0, left); column < std::min(s.width, left + s.window_width); ++column, first = false) {
        const int64_t place = (row * s.width + column) * n;
        for (int64_t c = 0; c < n; ++c) {
          const C v = C(from[place + c]), best = first ? v : C(y[at + c]);
          const bool wins = first || v > best || (v != v && best == best);
          y[at + c] = wins ? from[place + c] : y[at + c];
          index[at + c] = wins ? place + c : index[at + c];
        }
      }
  }
  static void run(void* context, int thread, int threads, ThreadPool::Barrier&) {
    const Pool& p = *static_cast<const Pool*>(context);
    const int64_t lines = p.s.images * p.s.out_height;
    for (int64_t line = lines * thread / threads; line < lines * (thread + 1) / threads; ++line)
      for (int64_t j = 0; j < p.s.out_width; ++j) p.window(line / p.s.out_height, line % p.s.out_height, j);
  }
};

}  // namespace

template <class T>
void max_pool2d(Stream& stream, const View& x, const View& y, const View& index, PoolSizes s) {
  if (y.size() == 0) return;
  Pool<T> pool{x.as<const T>(), y.as<T>(), index.as<int64_t>(), s};
  const double elements = double(y.size()) * double(s.window_height * s.window_width);
  const int threads = int(std::min({elements / kElementsPerThread, double(s.images * s.out_height), 1024.0}));
  struct NoBarrier final : ThreadPool::Barrier {
    void wait() override {}
  } barrier;
  if (threads <= 1) Pool<T>::run(&pool, 0, 1, barrier);
  else ThreadPool::of(stream.device).run(threads, Pool<T>::run, &pool);
}

template void max_pool2d<uint8_t>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<int8_t>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<int16_t>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<int32_t>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<int64_t>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<f16>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<bf16>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<float>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d<double>(Stream&, const View&, const View&, const View&, PoolSizes);

}  // namespace lamina::kernels::cpu
