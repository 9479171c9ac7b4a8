// Table of the functions that sort keys, compiled once per instruction set. Only data.
#pragma once
#include <cstdint>

namespace lamina::kernels::cpu {

// Sorts n keys in ascending order. `other`: a buffer of as many.
template <class K>
using SortKeys = void (*)(K* x, int64_t n, K* other);

// Keys of n floating-point numbers, in the same order, xor `flip`; every NaN has the largest. And back.
template <class T, class K>
struct SortFloats {
  void (*keys)(const T* x, int64_t n, K flip, K* keys);
  void (*values)(const K* keys, int64_t n, K flip, T* to);
};

struct SortTable {
  SortKeys<uint32_t> u32;
  SortKeys<uint64_t> u64;
  SortFloats<float, uint32_t> f32;
  SortFloats<double, uint64_t> f64;
};

namespace scalar {
extern const SortTable sort_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const SortTable sort_table;
}
namespace avx512 {
extern const SortTable sort_table;
}
#endif

}  // namespace lamina::kernels::cpu
