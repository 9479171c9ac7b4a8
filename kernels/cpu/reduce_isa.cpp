// Compiled once per instruction set (LAMINA_ISA). Always 32 lanes, whatever the register width, so that all give the same bits.
#include "kernels/cpu/reduce_table.h"

namespace lamina::kernels::cpu::LAMINA_ISA {
namespace {

constexpr int kLanes = 32;

#if defined(__AVX512F__)
constexpr int kRegister = 64;  // bytes
#elif defined(__AVX__)
constexpr int kRegister = 32;
#else
constexpr int kRegister = 16;
#endif
template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(kRegister)));
};

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

template <Combine op, class T>
T run(const T* x, int64_t n) {
  using V = typename Vector<T>::type;
  constexpr int per = int(sizeof(V) / sizeof(T)), vectors = kLanes / per;
  union {
    V v[vectors];
    T lane[kLanes];
  } acc;
  if constexpr (op == Combine::sum) {
    for (int j = 0; j < vectors; ++j) acc.v[j] = V{};
  } else if constexpr (op == Combine::prod) {
    for (int j = 0; j < kLanes; ++j) acc.lane[j] = 1;
  } else {
    for (int j = 0; j < kLanes; ++j) acc.lane[j] = x[0];
  }
  int64_t i = 0;
  if (n >= kLanes) {
    V v[vectors];
    for (int j = 0; j < vectors; ++j) v[j] = acc.v[j];
    if constexpr (op == Combine::max || op == Combine::min) {
      if (choose<op>(v, x, n))
        i = n / kLanes * kLanes;
      else
        for (int j = 0; j < vectors; ++j) v[j] = acc.v[j];
    }
    for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j) {
        V next;
        __builtin_memcpy(&next, x + i + j * per, sizeof next);
        combine<op>(v[j], next);
      }
    }
    for (int j = 0; j < vectors; ++j) acc.v[j] = v[j];
  }
  for (int j = 0; i + j < n; ++j) combine<op>(acc.lane[j], x[i + j]);
  for (int half = vectors / 2; half; half /= 2)
    for (int j = 0; j < half; ++j) combine<op>(acc.v[j], acc.v[j + half]);
  for (int half = per / 2; half; half /= 2)
    for (int j = 0; j < half; ++j) combine<op>(acc.lane[j], acc.lane[j + half]);
  return acc.lane[0];
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
