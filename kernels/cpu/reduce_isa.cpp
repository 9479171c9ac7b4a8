// Compiled once per instruction set (LAMINA_ISA). Always 32 lanes, whatever the register width, so that all give the same bits.
#include <type_traits>
#include <utility>

#include "kernels/cpu/reduce_table.h"
#include "kernels/cpu/simd.h"

namespace lamina::kernels::cpu::LAMINA_ISA {
namespace {

constexpr int kLanes = 32;

// Combines b into a; V is a number or a vector.
template <Combine op, class V>
[[gnu::always_inline]] inline void combine(V& a, const V& b) {
  if constexpr (op == Combine::sum) {
    a = a + b;
  } else if constexpr (op == Combine::prod) {
    a = a * b;
  } else {
    V chosen = op == Combine::max ? (a > b ? a : b) : (a < b ? a : b);
    a = a != a ? a : chosen;  // NaN wins
  }
}

// Of whole lanes without a NaN: the larger or smaller numbers, in `v`. Returns whether there was none.
template <Combine op, class V, class T, int vectors>
[[gnu::always_inline]] inline bool choose(V (&v)[vectors], const T* x, int64_t n) {
  constexpr int per = int(sizeof(V) / sizeof(T));
  decltype(v[0] != v[0]) nan[vectors] = {};
  for (int j = 0; j < vectors; ++j) nan[j] = v[j] != v[j];
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) {
      V next;
      __builtin_memcpy(&next, x + i + j * per, sizeof next);
      v[j] = op == Combine::max ? (v[j] > next ? v[j] : next) : (v[j] < next ? v[j] : next);
      nan[j] |= next != next;
    }
  }
  for (int j = 1; j < vectors; ++j) nan[0] |= nan[j];
  uint64_t words[sizeof(V) / 8], any = 0;
  __builtin_memcpy(words, &nan[0], sizeof words);
  for (uint64_t word : words) any |= word;
  return any == 0;
}

// Combines lanes i and i + half, and so on down to one.
template <int half, class V, int... i>
[[gnu::always_inline]] inline V moved_down(const V& x, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(x, x, (i + half) % int(sizeof...(i))...);
}
template <Combine op, class T, int half, class V>
[[gnu::always_inline]] inline T combine_lanes(V& x) {
  if constexpr (half == 0) {
    return x[0];
  } else {
    combine<op>(x, moved_down<half>(x, std::make_integer_sequence<int, int(sizeof(V) / sizeof(T))>()));
    return combine_lanes<op, T, half / 2>(x);
  }
}

template <Combine op, class T>
T run(const T* x, int64_t n) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int per = S::lanes, vectors = kLanes / per;
  const V first = S::all(op == Combine::sum ? T(0) : op == Combine::prod ? T(1) : x[0]);
  V v[vectors];
  for (int j = 0; j < vectors; ++j) v[j] = first;
  int64_t i = 0;
  if constexpr (op == Combine::max || op == Combine::min)
    if (n >= kLanes) {
      if (choose<op>(v, x, n))
        i = n / kLanes * kLanes;
      else
        for (int j = 0; j < vectors; ++j) v[j] = first;
    }
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) combine<op>(v[j], V(S::load(x + i + j * per)));
  }
  using Number = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Number Numbers __attribute__((vector_size(sizeof(V))));
  Numbers lane;
  for (int l = 0; l < per; ++l) lane[l] = l;
#pragma GCC unroll 8
  for (int j = 0; j < vectors; ++j) {
    const int64_t left = n - i - j * per;
    if (left <= 0) break;
    V with = v[j];
    combine<op>(with, V(S::load(x + i + j * per, S::part(left < per ? int(left) : per))));
    v[j] = lane < Number(left) ? with : v[j];
  }
#pragma GCC unroll 8
  for (int half = vectors / 2; half; half /= 2)
    for (int j = 0; j < half; ++j) combine<op>(v[j], v[j + half]);
  return combine_lanes<op, T, per / 2>(v[0]);
}

template <Combine op>
int64_t run_i64(const int64_t* x, int64_t n) {
  if constexpr (op == Combine::sum) {  // integers wrap, so the order does not matter
    uint64_t acc = 0;
    for (int64_t i = 0; i < n; ++i) acc += uint64_t(x[i]);
    return int64_t(acc);
  } else if constexpr (op == Combine::prod) {
    uint64_t acc = 1;
    for (int64_t i = 0; i < n; ++i) acc *= uint64_t(x[i]);
    return int64_t(acc);
  } else {
    int64_t acc = x[0];
    for (int64_t i = 1; i < n; ++i) acc = op == Combine::max ? (acc > x[i] ? acc : x[i]) : (acc < x[i] ? acc : x[i]);
    return acc;
  }
}

// 64 lanes of bytes: a run adds at most 16 times to each.
int64_t count(const uint8_t* x, int64_t n) {
  static_assert(kRun / 64 < 256);
  uint8_t lane[64] = {};
  int64_t i = 0, sum = 0;
  for (; i + 64 <= n; i += 64)
    for (int j = 0; j < 64; ++j) lane[j] = uint8_t(lane[j] + x[i + j]);
  for (int j = 0; j < 64; ++j) sum += lane[j];
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// Whether one of n elements equals value; of NaN: whether one is NaN.
template <int n, class T>
[[gnu::always_inline]] inline bool has(const T* x, T value, bool nan) {
  int found = 0;
  if (nan)
    for (int j = 0; j < n; ++j) found |= x[j] != x[j];
  else
    for (int j = 0; j < n; ++j) found |= x[j] == value;
  return found;
}
template <class T>
int64_t first(const T* x, int64_t n, T value) {
  const bool nan = value != value;
  constexpr int many = 8 * kLanes;
  int64_t i = 0;
  while (i + many <= n && !has<many>(x + i, value, nan)) i += many;
  while (i + kLanes <= n && !has<kLanes>(x + i, value, nan)) i += kLanes;
  while (i < n && !has<1>(x + i, value, nan)) ++i;
  return i;
}

template <class T, class Place>
void take_larger(const T* x, int64_t n, Place place, T* best, Place* at) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T a = best[i], b = x[i];
    const bool larger = (b > a) | ((b != b) & (a == a));
    best[i] = larger ? b : a;
    at[i] = larger ? place : at[i];
  }
}

}  // namespace

extern const ReduceTable reduce_table = {
    .f32 = {run<Combine::sum, float>, run<Combine::max, float>, run<Combine::min, float>, run<Combine::prod, float>},
    .f64 = {run<Combine::sum, double>, run<Combine::max, double>, run<Combine::min, double>, run<Combine::prod, double>},
    .i64 = {run_i64<Combine::sum>, run_i64<Combine::max>, run_i64<Combine::min>, run_i64<Combine::prod>},
    .count = count,
    .first_f32 = first<float>,
    .first_f64 = first<double>,
    .take_larger_f32 = take_larger<float, int32_t>,
    .take_larger_f64 = take_larger<double, int64_t>,
};

}  // namespace lamina::kernels::cpu::LAMINA_ISA
