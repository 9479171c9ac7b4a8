// Keys of floating-point numbers, and the table of the functions that sort keys, compiled once per instruction set.
#pragma once
#include <cstdint>
#include <cstring>

namespace lamina::kernels::cpu {

// Sorts n keys in ascending order. `other`: a buffer of as many.
template <class K>
using SortKeys = void (*)(K* x, int64_t n, K* other);

// A key of a floating-point number, in the same order; every NaN has the largest. And back. K has as many bits.
template <class K, class T>
[[gnu::always_inline]] inline K key_of_float(T v) {
  constexpr K sign = K(1) << (8 * sizeof(K) - 1);
  K bits;
  std::memcpy(&bits, &v, sizeof bits);
  const K key = bits & sign ? ~bits : bits | sign;
  return v != v ? ~K(0) : key;
}
template <class T, class K>
[[gnu::always_inline]] inline T float_of_key(K key) {
  constexpr K sign = K(1) << (8 * sizeof(K) - 1);
  const K bits = key & sign ? key ^ sign : ~key;
  T v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

// The keys of n numbers, xor `flip`, and back.
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
