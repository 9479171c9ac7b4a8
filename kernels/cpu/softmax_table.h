// Table of the loops of softmax, compiled once per instruction set. Only data.
#pragma once
#include <cstdint>

namespace lamina::kernels::cpu {

// One row of n elements. Lane j of 16 adds elements j, j + 16, ... in double; the lanes are added as a tree.
template <class T>
using SoftmaxRow = void (*)(const T* x, T* y, int64_t n);
// `count` columns side by side, at most kSoftmaxColumns, of n elements each that are `stride` apart. Sums in order, in double.
inline constexpr int64_t kSoftmaxColumns = 64;
template <class T>
using SoftmaxColumns = void (*)(const T* x, T* y, int64_t n, int64_t stride, int64_t count);

template <class T>
struct SoftmaxLoops {
  SoftmaxRow<T> row;
  SoftmaxColumns<T> columns;
};
struct SoftmaxTable {  // [log]
  SoftmaxLoops<float> f32[2];
  SoftmaxLoops<double> f64[2];
};

namespace scalar {
extern const SoftmaxTable softmax_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const SoftmaxTable softmax_table;
}
namespace avx512 {
extern const SoftmaxTable softmax_table;
}
#endif

}  // namespace lamina::kernels::cpu
