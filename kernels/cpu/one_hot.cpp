#include "kernels/one_hot.h"

#include <algorithm>

#include "kernels/cpu/indices.h"

namespace lamina::kernels::cpu {

template <class T>
void one_hot(Stream&, const View& labels, const View& y) {
  int64_t classes = y.shape[y.rank - 1];
  T* out = y.as<T>();
  std::fill_n(out, y.size(), T(compute_t<T>(0)));
  for (int64_t i = 0, n = labels.size(); i < n; ++i) {
    int64_t label = index_at(labels, i);
    if (label >= 0 && label < classes) out[i * classes + label] = T(compute_t<T>(1));
  }
}

template <class T>
void iota(Stream&, const View& y, int axis) {
  T* out = y.as<T>();
  int64_t n = y.size(), length = y.shape[axis], inner = y.strides[axis];
  for (int64_t i = 0; i < n;)
    for (int64_t j = 0; j < length; ++j, i += inner) std::fill_n(out + i, inner, T(compute_t<T>(j)));
}

#define LAMINA_INSTANTIATE(T)                                  \
  template void one_hot<T>(Stream&, const View&, const View&); \
  template void iota<T>(Stream&, const View&, int);
LAMINA_INSTANTIATE(uint8_t)
LAMINA_INSTANTIATE(int8_t)
LAMINA_INSTANTIATE(int16_t)
LAMINA_INSTANTIATE(int32_t)
LAMINA_INSTANTIATE(int64_t)
LAMINA_INSTANTIATE(f16)
LAMINA_INSTANTIATE(bf16)
LAMINA_INSTANTIATE(float)
LAMINA_INSTANTIATE(double)
template void one_hot<bool>(Stream&, const View&, const View&);

}  // namespace lamina::kernels::cpu
