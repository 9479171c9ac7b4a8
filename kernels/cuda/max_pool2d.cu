// A thread takes an element of the result, neighbouring threads neighbouring channels. Bound by memory.
#include "kernels/max_pool2d.h"

#include "kernels/cuda/element.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
LAMINA_KERNEL(256) max_pool_elements(const T* x, T* y, int64_t* index, PoolSizes s, int64_t size) {
  using C = compute_t<T>;
  for (int64_t at = first_element(); at < size; at += all_threads()) {
    const int64_t c = at % s.channels, j = at / s.channels % s.out_width, i = at / s.channels / s.out_width % s.out_height;
    const T* from = x + at / s.channels / s.out_width / s.out_height * (s.height * s.width * s.channels);
    const int64_t top = i * s.stride_height - s.before_height, left = j * s.stride_width - s.before_width;
    const int64_t last_row = top + s.window_height < s.height ? top + s.window_height : s.height;
    const int64_t last_column = left + s.window_width < s.width ? left + s.window_width : s.width;
    bool first = true;
    C best{};
    int64_t place = 0;
    for (int64_t row = top > 0 ? top : 0; row < last_row; ++row)
      for (int64_t column = left > 0 ? left : 0; column < last_column; ++column, first = false) {
        const int64_t here = (row * s.width + column) * s.channels + c;
        const C v = widen(from[here]);
        if (first || v > best || (v != v && best == best)) best = v, place = here;
      }
    y[at] = from[place];
    index[at] = place;
  }
}

}  // namespace

template <class T>
void max_pool2d(Stream& stream, const View& x, const View& y, const View& index, PoolSizes s) {
  const int64_t size = y.size();
  if (size == 0) return;
  launch<max_pool_elements<T>>(stream, over(size), x.as<const T>(), y.as<T>(), index.as<int64_t>(), s, size);
}

#define LAMINA_POOL(T) template void max_pool2d<T>(Stream&, const View&, const View&, const View&, PoolSizes);
LAMINA_POOL(uint8_t)
LAMINA_POOL(int8_t)
LAMINA_POOL(int16_t)
LAMINA_POOL(int32_t)
LAMINA_POOL(int64_t)
LAMINA_POOL(f16)
LAMINA_POOL(bf16)
LAMINA_POOL(float)
LAMINA_POOL(double)
#undef LAMINA_POOL

}  // namespace lamina::kernels::cuda
