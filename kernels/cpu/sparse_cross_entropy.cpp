#include "kernels/sparse_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/indices.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cpu {
namespace {

template <class T>
void rows_of(const T* logits, const View& labels, int64_t first, int64_t rows, int64_t n, T* losses, T* probabilities) {
  using C = compute_t<T>;
  for (int64_t r = first; r < first + rows; ++r) {
    const T* x = logits + r * n;
    T* p = probabilities + r * n;
    C at_label = C(x[index_at(labels, r)]), high = -std::numeric_limits<C>::infinity();
    double sum = 0;  // in order of the row
    for (int64_t i = 0; i < n; ++i) high = std::max(high, C(x[i]));
    if constexpr (sizeof(T) >= sizeof(C)) {
      for (int64_t i = 0; i < n; ++i) sum += double(p[i] = std::exp(x[i] - high));
      for (int64_t i = 0; i < n; ++i) p[i] /= C(sum);
    } else {
      for (int64_t i = 0; i < n; ++i) sum += double(std::exp(C(x[i]) - high));
      for (int64_t i = 0; i < n; ++i) p[i] = T(std::exp(C(x[i]) - high) / C(sum));
    }
    losses[r] = T(C(std::log(sum)) - (at_label - high));
  }
}

}  // namespace

void check_labels(const View& labels, int64_t first, int64_t count, int64_t classes) {
  for (int64_t i = first; i < first + count; ++i) {
    int64_t label = index_at(labels, i);
    if (label < 0 || label >= classes) throw label_out_of_range(label, classes, i);
  }
}

template <class T>
void sparse_cross_entropy(Stream&, const View& logits, const View& labels, const View& losses, const View& probabilities) {
  int64_t rows = labels.size(), n = logits.shape[logits.rank - 1];
  check_labels(labels, 0, rows, n);
  rows_of(logits.as<const T>(), labels, 0, rows, n, losses.as<T>(), probabilities.as<T>());
}

void sparse_cross_entropy_rows(const float* logits, const View& labels, int64_t first, int64_t rows, int64_t n, float* losses,
                               float* probabilities) {
  rows_of(logits, labels, first, rows, n, losses, probabilities);
}

template void sparse_cross_entropy<f16>(Stream&, const View&, const View&, const View&, const View&);
template void sparse_cross_entropy<bf16>(Stream&, const View&, const View&, const View&, const View&);
template void sparse_cross_entropy<float>(Stream&, const View&, const View&, const View&, const View&);
template void sparse_cross_entropy<double>(Stream&, const View&, const View&, const View&, const View&);

}  // namespace lamina::kernels::cpu
