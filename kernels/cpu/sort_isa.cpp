// Compiled once per instruction set (LAMINA_ISA). Quicksort of unsigned keys. Short lengths are sorted in registers by a bitonic network
// (Batcher 1968).
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "kernels/cpu/sort_table.h"

namespace lamina::kernels::cpu::LAMINA_ISA {
namespace {

#define LAMINA_INLINE inline __attribute__((always_inline))

// Bytes of a vector, and vectors of the largest network: half of the registers.
#if defined(__AVX512F__)
constexpr int kBytes = 64, kVectors = 16;
#elif defined(__AVX2__)
constexpr int kBytes = 32, kVectors = 8;
#else
constexpr int kBytes = 16, kVectors = 8;
#endif

template <class K>
struct Keys {
  typedef K V __attribute__((vector_size(kBytes)));
  static constexpr int lanes = kBytes / int(sizeof(K)), most = kVectors * lanes;
  static V load(const K* p) {
    V x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  static void store(K* p, const V& x) { std::memcpy(p, &x, sizeof x); }
};

template <class V>
LAMINA_INLINE V smaller(const V& a, const V& b) {
  return a < b ? a : b;
}
template <class V>
LAMINA_INLINE V larger(const V& a, const V& b) {
  return a < b ? b : a;
}

// Lanes i and i ^ change exchange their keys if they are in the wrong order.
template <int change, class V, size_t... i>
LAMINA_INLINE void exchange(V& x, std::index_sequence<i...>) {
  constexpr int lanes = int(sizeof...(i));
  constexpr int high = int(std::bit_floor(unsigned(change)));  // the bit that tells the upper lane
  const V y = __builtin_shufflevector(x, x, int(i ^ size_t(change))...);
  const V low = smaller(x, y), up = larger(x, y);
  x = __builtin_shufflevector(low, up, (int(i) & high ? int(i) + lanes : int(i))...);
}
template <int change, class V>
LAMINA_INLINE void exchange(V& x) {
  exchange<change>(x, std::make_index_sequence<sizeof(V) / sizeof(x[0])>());
}
template <class V, size_t... i>
LAMINA_INLINE V reversed(const V& x, std::index_sequence<i...>) {
  return __builtin_shufflevector(x, x, int(sizeof...(i) - 1 - i)...);
}

// Sorts bitonic runs of 2 * distance lanes.
template <int distance, class V>
LAMINA_INLINE void merge_lanes(V& x) {
  if constexpr (distance > 0) {
    exchange<distance>(x);
    merge_lanes<distance / 2>(x);
  }
}
template <int size, class V>
LAMINA_INLINE void sort_lanes(V& x) {  // runs of `size` lanes are sorted
  constexpr int lanes = int(sizeof(V) / sizeof(x[0]));
  if constexpr (size < lanes) {
    exchange<2 * size - 1>(x);
    merge_lanes<size / 2>(x);
    sort_lanes<size * 2>(x);
  }
}
template <int count, class V>
LAMINA_INLINE void merge_bitonic(V* x) {
  if constexpr (count == 1) {
    merge_lanes<int(sizeof(V) / sizeof((*x)[0])) / 2>(*x);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < count / 2; ++i) {
      const V a = x[i], b = x[i + count / 2];
      x[i] = smaller(a, b), x[i + count / 2] = larger(a, b);
    }
    merge_bitonic<count / 2>(x);
    merge_bitonic<count / 2>(x + count / 2);
  }
}
template <int count, class V>
LAMINA_INLINE void sort_vectors(V* x) {
  if constexpr (count == 1) {
    sort_lanes<1>(*x);
  } else {
    sort_vectors<count / 2>(x);
    sort_vectors<count / 2>(x + count / 2);
    V y[count];
#pragma GCC unroll 16
    for (int i = 0; i < count / 2; ++i) {  // the upper half comes out in reverse, which is bitonic as well
      const V up = reversed(x[count - 1 - i], std::make_index_sequence<sizeof(V) / sizeof(x[0][0])>());
      y[i] = smaller(x[i], up), y[count / 2 + i] = larger(x[i], up);
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) x[i] = y[i];
    merge_bitonic<count / 2>(x);
    merge_bitonic<count / 2>(x + count / 2);
  }
}

// Sorts n keys, at most count vectors, which are filled up with the largest key.
template <class K, int count>
[[gnu::noinline]] void network(K* x, int64_t n) {
  using S = Keys<K>;
  typename S::V v[count];
  alignas(kBytes) K tail[S::lanes];
  const int64_t whole = n / S::lanes;
  std::fill(tail, tail + S::lanes, ~K(0));
  std::copy(x + whole * S::lanes, x + n, tail);
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) v[i] = i < whole ? S::load(x + i * S::lanes) : i == whole ? S::load(tail) : ~typename S::V{};
  sort_vectors<count>(v);
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    if (i < whole) S::store(x + i * S::lanes, v[i]);
    if (i == whole) S::store(tail, v[i]);
  }
  std::copy(tail, tail + (n - whole * S::lanes), x + whole * S::lanes);
}
template <class K, int count = 1>
void sort_few(K* x, int64_t n) {
  if constexpr (count < kVectors)
    if (n > count * Keys<K>::lanes) return sort_few<K, count * 2>(x, n);
  network<K, count>(x, n);
}

// Moves the keys less than the pivot to the front and returns their number. The others pass through `other`. A store writes a whole vector,
// but never beyond the keys that have been read.
template <class K>
int64_t partition(K* x, int64_t n, K pivot, K* other) {
  int64_t less = 0, rest = 0, i = 0;
#if defined(__AVX512F__)
  constexpr int lanes = Keys<K>::lanes;
  for (; i + lanes <= n; i += lanes) {
    const __m512i v = _mm512_loadu_si512(x + i);
    int count;
    if constexpr (sizeof(K) == 4) {
      const __mmask16 m = _mm512_cmplt_epu32_mask(v, _mm512_set1_epi32(int(pivot)));
      _mm512_storeu_si512(x + less, _mm512_maskz_compress_epi32(m, v));
      _mm512_storeu_si512(other + rest, _mm512_maskz_compress_epi32(__mmask16(~m), v));
      count = __builtin_popcount(m);
    } else {
      const __mmask8 m = _mm512_cmplt_epu64_mask(v, _mm512_set1_epi64((long long)pivot));
      _mm512_storeu_si512(x + less, _mm512_maskz_compress_epi64(m, v));
      _mm512_storeu_si512(other + rest, _mm512_maskz_compress_epi64(__mmask8(~m), v));
      count = __builtin_popcount(m);
    }
    less += count, rest += lanes - count;
  }
#endif
  for (; i < n; ++i) {
    const K key = x[i];
    x[less] = other[rest] = key;
    less += key < pivot, rest += !(key < pivot);
  }
  std::memcpy(x + less, other, size_t(rest) * sizeof(K));
  return less;
}

template <class K>
K median(K a, K b, K c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
template <class K>
K pivot_of(const K* x, int64_t n) {
  constexpr int count = Keys<K>::lanes;
  alignas(kBytes) K sample[count];
  for (int i = 0; i < count; ++i) sample[i] = x[n * (2 * i + 1) / (2 * count)];
  network<K, 1>(sample, count);
  return sample[count / 2];
}

template <class K>
void sort_range(K* x, int64_t n, K* other, int depth) {
  while (n > Keys<K>::most) {
    if (depth-- == 0) return std::sort(x, x + n);  // many bad pivots
    K pivot = pivot_of(x, n);
    int64_t less = partition(x, n, pivot, other);
    if (less == 0) {  // the pivot is the smallest key: first all equal ones
      if (pivot == ~K(0)) return;
      less = partition(x, n, K(pivot + 1), other);
      x += less, n -= less;
      continue;
    }
    if (less < n - less) {
      sort_range(x, less, other, depth);
      x += less, n -= less;
    } else {
      sort_range(x + less, n - less, other, depth);
      n = less;
    }
  }
  sort_few(x, n);
}
template <class K>
void sort_keys(K* x, int64_t n, K* other) {
  sort_range(x, n, other, 2 * (64 - __builtin_clzll(uint64_t(n) | 1)));
}

template <class T, class K>
void keys_of(const T* x, int64_t n, K flip, K* keys) {
  for (int64_t i = 0; i < n; ++i) keys[i] = key_of_float<K>(x[i]) ^ flip;
}
template <class T, class K>
void values_of(const K* keys, int64_t n, K flip, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = float_of_key<T, K>(keys[i] ^ flip);
}

}  // namespace

extern const SortTable sort_table = {.u32 = sort_keys<uint32_t>,
                                     .u64 = sort_keys<uint64_t>,
                                     .f32 = {keys_of<float, uint32_t>, values_of<float, uint32_t>},
                                     .f64 = {keys_of<double, uint64_t>, values_of<double, uint64_t>}};

}  // namespace lamina::kernels::cpu::LAMINA_ISA
