#include "kernels/max_pool2d.h"

#include <algorithm>

#include "kernels/cpu/indices.h"
#include "kernels/cpu/sums.h"
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

// Each thread takes rows of the images, and visits each window that overlaps them.
template <class T>
struct PoolGrad {
  const T* dy;
  const int64_t* index;
  T* dx;
  const PoolSizes& s;

  void rows(int64_t image, int64_t begin, int64_t end) const {
    const int64_t line = s.width * s.channels, line_out = s.out_width * s.channels, from = begin * line, to = end * line;
    Sums<T> sums(dx + image * s.height * line + from, to - from);
    compute_t<T>* const x = sums.data();
    std::fill(x, x + (to - from), compute_t<T>(0));
    const int64_t first = std::max<int64_t>(0, begin + s.before_height - s.window_height + s.stride_height) / s.stride_height;
    const int64_t last = std::min(s.out_height, (end - 1 + s.before_height) / s.stride_height + 1);
    for (int64_t k = (image * s.out_height + first) * line_out; k < (image * s.out_height + last) * line_out; ++k) {
      const int64_t place = index[k];
      if (place >= from && place < to) x[place - from] += compute_t<T>(dy[k]);
    }
  }
  static void run(void* context, int thread, int threads, ThreadPool::Barrier&) {
    const PoolGrad& p = *static_cast<const PoolGrad*>(context);
    const int64_t all = p.s.images * p.s.height, end = all * (thread + 1) / threads;
    for (int64_t row = all * thread / threads; row < end;) {
      const int64_t image = row / p.s.height, last = std::min(end, (image + 1) * p.s.height);
      p.rows(image, row - image * p.s.height, last - image * p.s.height);
      row = last;
    }
  }
};

// Runs Work::run on as many threads as the elements justify, each with at least a line.
template <class Work>
void share(Stream& stream, Work& work, double elements, int64_t lines) {
  const int threads = int(std::min({elements / kElementsPerThread, double(lines), 1024.0}));
  ThreadPool::NoBarrier barrier;
  if (threads <= 1)
    Work::run(&work, 0, 1, barrier);
  else
    ThreadPool::of(stream.device).run(threads, Work::run, &work);
}

}  // namespace

template <class T>
void max_pool2d(Stream& stream, const View& x, const View& y, const View& index, PoolSizes s) {
  if (y.size() == 0) return;
  Pool<T> pool{x.as<const T>(), y.as<T>(), index.as<int64_t>(), s};
  share(stream, pool, double(y.size()) * double(s.window_height * s.window_width), s.images * s.out_height);
}

template <class T>
void max_pool2d_grad(Stream& stream, const View& dy, const View& index, const View& dx, PoolSizes s) {
  if (dx.size() == 0) return;
  PoolGrad<T> grad{dy.as<const T>(), index.as<const int64_t>(), dx.as<T>(), s};
  share(stream, grad, double(dx.size()) + double(dy.size()), s.images * s.height);
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
template void max_pool2d_grad<f16>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d_grad<bf16>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d_grad<float>(Stream&, const View&, const View&, const View&, PoolSizes);
template void max_pool2d_grad<double>(Stream&, const View&, const View&, const View&, PoolSizes);

}  // namespace lamina::kernels::cpu
