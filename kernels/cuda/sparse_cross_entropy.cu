// One warp or block per row, as in softmax.cu. Memory-bound.
#include "kernels/sparse_cross_entropy.h"

#include "kernels/cuda/scratch.h"
#include "kernels/cuda/softmax_row.h"
#include "kernels/gpu_kernel.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cuda {
namespace {

template <class T, By by>
LAMINA_KERNEL(256)
cross_entropy_rows(const T* logits, const void* labels, DType label_type, T* losses, T* probabilities, int64_t rows, int64_t n,
                   FaultSite site) {
  using C = compute_t<T>;
  for (int64_t r = first_row<by>(); r < rows; r += row_step<by>()) {
    const T* x = logits + r * n;
    const int64_t label = integer_at(labels, label_type, r);
    const bool known = label >= 0 && label < n;
    const Row<by> row(n);
    if (!known && row.first == 0) report(site, 0, label, n, r);
    C high;
    double sum;
    measure<by>(x, n, 1, high, sum);
    for (int64_t i = row.first; i < n; i += row.step) probabilities[r * n + i] = narrow<T>(scalar::exp(C(widen(x[i]) - high)) / C(sum));
    if (row.first == 0) losses[r] = narrow<T>(known ? C(C(scalar::log(sum)) - (widen(x[label]) - high)) : C(scalar::wide::not_a_number()));
  }
}

Error bad_label(const Fault& f, const std::string&) { return label_out_of_range(f.value, f.limit, f.place); }

}  // namespace

template <class T>
void sparse_cross_entropy(Stream& stream, const View& logits, const View& labels, const View& losses, const View& probabilities) {
  const int64_t rows = labels.size(), n = logits.shape[logits.rank - 1];
  if (rows == 0) return;
  const By by = row_owner(rows, n, 1);
  const auto start = [&]<By known>() {
    launch<cross_entropy_rows<T, known>>(stream, over_rows(known, rows), logits.as<const T>(), static_cast<const void*>(labels.data),
                                         labels.dtype, losses.as<T>(), probabilities.as<T>(), rows, n,
                                         stream.backend->fault_site(stream, bad_label));
  };
  by == By::block ? start.template operator()<By::block>() : start.template operator()<By::warp>();
}

namespace {
const GpuKernels<LAMINA_FLOATING(sparse_cross_entropy)> registered;
}

}  // namespace lamina::kernels::cuda
