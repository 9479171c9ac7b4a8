// gather: one thread per element of the result. scatter_add: updates are sorted by index; one thread adds the updates of one index and
// column in order, so that sums do not depend on scheduling. Memory-bound.
#include "kernels/gather.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/segments.h"
#include "kernels/gpu_kernel.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
LAMINA_KERNEL(256)
gather_elements(const T* x, const void* indices, DType type, T* y, GatherSizes s, int64_t size, FaultSite site) {
  for (int64_t i = first_element(); i < size; i += all_threads()) {
    const int64_t inner = i % s.inner, j = i / s.inner % s.count, o = i / s.inner / s.count % s.outer, b = i / s.inner / s.count / s.outer;
    const int64_t given = integer_at(indices, type, b * s.count + j), index = given < 0 ? given + s.length : given;
    if (index < 0 || index >= s.length) {
      report(site, 0, given, s.length, b * s.count + j);
      y[i] = T(0);
    } else {
      y[i] = x[((b * s.outer + o) * s.length + index) * s.inner + inner];
    }
  }
}

struct Add {
  template <class T>
  LAMINA_DEVICE T operator()(T sum, T update) const {
    if constexpr (std::is_integral_v<T>)
      return T(std::make_unsigned_t<T>(std::make_unsigned_t<T>(sum) + std::make_unsigned_t<T>(update)));
    else
      return sum + update;
  }
};

Error gather_error(const Fault& f, const std::string&) { return index_error("gather", f); }
Error scatter_error(const Fault& f, const std::string&) { return index_error("scatter_add", f); }

}  // namespace

template <class T>
void gather(Stream& stream, const View& x, const View& indices, const View& y, GatherSizes s) {
  const int64_t size = s.batch * s.outer * s.count * s.inner;
  if (size == 0) return check_indices(stream, indices, s, gather_error);
  launch<gather_elements<T>>(stream, over(size), x.as<const T>(), static_cast<const void*>(indices.data), indices.dtype, y.as<T>(), s, size,
                             stream.backend->fault_site(stream, gather_error));
}

template <class T>
void scatter_add(Stream& stream, const View& updates, const View& indices, const View& y, GatherSizes s) {
  zero(stream, y);
  combine_segments<T>(stream, updates, indices, y, s, Add{}, scatter_error);
}

namespace {
const GpuKernels<LAMINA_WIDTHS(gather), LAMINA_NUMERIC(scatter_add)> registered;
}

}  // namespace lamina::kernels::cuda
