// One warp per row, as in softmax.cu. Memory-bound.
#include "kernels/sparse_cross_entropy.h"

#include "kernels/cuda/scratch.h"
#include "kernels/cuda/softmax_row.h"
#include "kernels/gpu_kernel.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
LAMINA_KERNEL(256)
cross_entropy_rows(const T* logits, const void* labels, DType label_type, T* losses, T* probabilities, int64_t rows, int64_t n,
                   FaultSite site) {
  using C = compute_t<T>;
  for (int64_t r = first_warp(); r < rows; r += all_warps()) {
    const T* x = logits + r * n;
    const int64_t label = integer_at(labels, label_type, r);
    const bool known = label >= 0 && label < n;
    if (!known && lane() == 0) report(site, 0, label, n, r);
    C high;
    double sum;
    measure<true>(x, n, 1, high, sum);
    for (int64_t i = lane(); i < n; i += kWarp) probabilities[r * n + i] = narrow<T>(scalar::exp(C(widen(x[i]) - high)) / C(sum));
    if (lane() == 0) losses[r] = narrow<T>(known ? C(C(scalar::log(sum)) - (widen(x[label]) - high)) : C(scalar::wide::not_a_number()));
  }
}

Error bad_label(const Fault& f, const std::string&) { return label_out_of_range(f.value, f.limit, f.place); }

}  // namespace

template <class T>
void sparse_cross_entropy(Stream& stream, const View& logits, const View& labels, const View& losses, const View& probabilities) {
  const int64_t rows = labels.size(), n = logits.shape[logits.rank - 1];
  if (rows == 0) return;
  launch<cross_entropy_rows<T>>(stream, over_warps(rows), logits.as<const T>(), static_cast<const void*>(labels.data), labels.dtype,
                                losses.as<T>(), probabilities.as<T>(), rows, n, stream.backend->fault_site(stream, bad_label));
}

namespace {
const GpuKernels<LAMINA_FLOATING(sparse_cross_entropy)> registered;
}

}  // namespace lamina::kernels::cuda
