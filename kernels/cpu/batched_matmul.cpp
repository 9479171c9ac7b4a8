#include "kernels/batched_matmul.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/section/table.h"

namespace lamina::kernels::cpu {
namespace {

// One product of m x k by k x n. Arrays are row-major; a transposed operand is stored as k x m or n x k.
struct Sizes {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t lda() const { return transpose_a ? m : k; }
  int64_t ldb() const { return transpose_b ? k : n; }
};

template <class T>
void product(const T* a, const T* b, T* c, const Sizes& s, Device device) {
  if constexpr (std::is_floating_point_v<T>) {
    matmul<T>(s.m, s.n, s.k, a, s.lda(), s.transpose_a, b, s.ldb(), s.transpose_b, c, s.n, device);
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;  // wraps
    std::fill(c, c + s.m * s.n, T(0));
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t p = 0; p < s.k; ++p) {
        U left = U(s.transpose_a ? a[p * s.m + i] : a[i * s.k + p]);
        for (int64_t j = 0; j < s.n; ++j) c[i * s.n + j] = T(U(c[i * s.n + j]) + left * U(s.transpose_b ? b[j * s.k + p] : b[p * s.n + j]));
      }
  } else {
    std::vector<float> fa(size_t(s.m * s.k)), fb(size_t(s.k * s.n)), fc(size_t(s.m * s.n));
    std::copy(a, a + s.m * s.k, fa.begin());
    std::copy(b, b + s.k * s.n, fb.begin());
    product<float>(fa.data(), fb.data(), fc.data(), s, device);
    std::transform(fc.begin(), fc.end(), c, [](float v) { return T(v); });
  }
}

// Stride in a along each leading axis of c; 0 where a repeats.
void leading_strides(const View& a, const View& c, int64_t strides[kMaxRank]) {
  for (int i = 0; i < c.rank - 2; ++i) {
    int axis = i - (c.rank - a.rank);
    strides[i] = axis >= 0 && a.shape[axis] != 1 ? a.strides[axis] : 0;
  }
}

}  // namespace

template <class T>
void batched_matmul(Stream& stream, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b, Precision) {
  if (c.size() == 0) return;
  Sizes s{c.shape[c.rank - 2], c.shape[c.rank - 1], a.shape[transpose_a ? a.rank - 2 : a.rank - 1], transpose_a, transpose_b};
  const T *from_a = a.as<const T>(), *from_b = b.as<const T>();
  T* to = c.as<T>();
  if (s.k == 0) return std::fill(to, to + c.size(), T(0));
  int64_t matrices = c.size() / (s.m * s.n);
  // One matrix b for all of a: a's rows form one long matrix.
  if (!transpose_a && b.size() == s.k * s.n && a.size() == matrices * s.m * s.k) {
    s.m *= matrices;
    return product(from_a, from_b, to, s, stream.device);
  }
  int64_t stride_a[kMaxRank], stride_b[kMaxRank], index[kMaxRank] = {};
  leading_strides(a, c, stride_a);
  leading_strides(b, c, stride_b);
  for (int64_t i = 0; i < matrices; ++i, to += s.m * s.n) {
    int64_t at_a = 0, at_b = 0;
    for (int d = 0; d < c.rank - 2; ++d) at_a += index[d] * stride_a[d], at_b += index[d] * stride_b[d];
    product(from_a + at_a, from_b + at_b, to, s, stream.device);
    for (int d = c.rank - 3; d >= 0 && ++index[d] == c.shape[d]; --d) index[d] = 0;
  }
}

template void batched_matmul<f16>(Stream&, const View&, const View&, const View&, bool, bool, Precision);
template void batched_matmul<bf16>(Stream&, const View&, const View&, const View&, bool, bool, Precision);
template void batched_matmul<float>(Stream&, const View&, const View&, const View&, bool, bool, Precision);
template void batched_matmul<double>(Stream&, const View&, const View&, const View&, bool, bool, Precision);
template void batched_matmul<int32_t>(Stream&, const View&, const View&, const View&, bool, bool, Precision);
template void batched_matmul<int64_t>(Stream&, const View&, const View&, const View&, bool, bool, Precision);

}  // namespace lamina::kernels::cpu
