// A thread writes elements of the result. Memory-bound.
#include "kernels/one_hot.h"

#include "kernels/cuda/element.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
LAMINA_KERNEL(256)
one_hot_elements(const void* labels, DType label_type, T* y, int64_t size, int64_t classes) {
  for (int64_t i = first_element(); i < size; i += all_threads())
    y[i] = narrow<T>(compute_t<T>(integer_at(labels, label_type, i / classes) == i % classes ? 1 : 0));
}

template <class T>
LAMINA_KERNEL(256)
iota_elements(T* y, int64_t size, int64_t length, int64_t inner) {
  for (int64_t i = first_element(); i < size; i += all_threads()) y[i] = narrow<T>(compute_t<T>(i / inner % length));
}

}  // namespace

template <class T>
void one_hot(Stream& stream, const View& labels, const View& y) {
  const int64_t size = y.size();
  if (size == 0) return;
  launch<one_hot_elements<T>>(stream, over(size), static_cast<const void*>(labels.data), labels.dtype, y.as<T>(), size,
                              y.shape[y.rank - 1]);
}

template <class T>
void iota(Stream& stream, const View& y, int axis) {
  const int64_t size = y.size();
  if (size == 0) return;
  launch<iota_elements<T>>(stream, over(size), y.as<T>(), size, y.shape[axis], y.strides[axis]);
}

namespace {
const GpuKernels<LAMINA_NUMERIC(one_hot), &one_hot<bool>, LAMINA_NUMERIC(iota)> registered;
}

}  // namespace lamina::kernels::cuda
