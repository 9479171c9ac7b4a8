// One thread per element of the result; neighbouring threads take neighbouring channels. Memory-bound.
#include "kernels/max_pool2d.h"

#include "kernels/cuda/element.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
LAMINA_KERNEL(256)
max_pool_elements(const T* x, T* y, int64_t* index, PoolSizes s, Images of_y, Divider channels, int64_t size) {
  using C = compute_t<T>;
  for (int64_t at = first_element(); at < size; at += all_threads()) {
    int64_t pixel = at;
    const int64_t channel = channels.split(pixel);
    const Place e = of_y.place(pixel);
    const T* from = x + e.image * (s.height * s.width * s.channels);
    const int64_t top = e.row * s.stride_height - s.before_height, left = e.column * s.stride_width - s.before_width;
    const int64_t last_row = top + s.window_height < s.height ? top + s.window_height : s.height;
    const int64_t last_column = left + s.window_width < s.width ? left + s.window_width : s.width;
    bool first = true;
    C best{};
    int64_t place = 0;
    for (int64_t row = top > 0 ? top : 0; row < last_row; ++row)
      for (int64_t column = left > 0 ? left : 0; column < last_column; ++column, first = false) {
        const int64_t here = (row * s.width + column) * s.channels + channel;
        const C v = widen(from[here]);
        if (first || v > best || (v != v && best == best)) best = v, place = here;
      }
    y[at] = from[place];
    index[at] = place;
  }
}

// One thread per element of dx, which visits the windows over it in order.
template <class T>
LAMINA_KERNEL(256)
max_pool_gradients(const T* dy, const int64_t* index, T* dx, PoolSizes s, Images of_x, Divider channels, Divider stride_height,
                   Divider stride_width, int64_t size) {
  for (int64_t at = first_element(); at < size; at += all_threads()) {
    int64_t pixel = at;
    const int64_t channel = channels.split(pixel);
    const Place e = of_x.place(pixel);
    const int64_t place = (e.row * s.width + e.column) * s.channels + channel;
    const int64_t below = e.row + s.before_height, right = e.column + s.before_width;
    const int64_t first_i = below >= s.window_height ? stride_height.quotient(below - s.window_height) + 1 : 0;
    const int64_t first_j = right >= s.window_width ? stride_width.quotient(right - s.window_width) + 1 : 0;
    compute_t<T> sum = 0;
    for (int64_t i = first_i; i < s.out_height && i * s.stride_height <= below; ++i)
      for (int64_t j = first_j; j < s.out_width && j * s.stride_width <= right; ++j) {
        const int64_t k = ((e.image * s.out_height + i) * s.out_width + j) * s.channels + channel;
        if (index[k] == place) sum += widen(dy[k]);
      }
    dx[at] = narrow<T>(sum);
  }
}

}  // namespace

template <class T>
void max_pool2d(Stream& stream, const View& x, const View& y, const View& index, PoolSizes s) {
  const int64_t size = y.size();
  if (size == 0) return;
  const Images of_y{Divider(s.out_height), Divider(s.out_width)};
  launch<max_pool_elements<T>>(stream, over(size), x.as<const T>(), y.as<T>(), index.as<int64_t>(), s, of_y, Divider(s.channels), size);
}

template <class T>
void max_pool2d_grad(Stream& stream, const View& dy, const View& index, const View& dx, PoolSizes s) {
  const int64_t size = dx.size();
  if (size == 0) return;
  const Images of_x{Divider(s.height), Divider(s.width)};
  launch<max_pool_gradients<T>>(stream, over(size), dy.as<const T>(), index.as<const int64_t>(), dx.as<T>(), s, of_x, Divider(s.channels),
                                Divider(s.stride_height), Divider(s.stride_width), size);
}

namespace {
const GpuKernels<LAMINA_NUMERIC(max_pool2d), LAMINA_FLOATING(max_pool2d_grad)> registered;
}

}  // namespace lamina::kernels::cuda
