// Simd<T>: vectors of the instruction set that a file is compiled for. Only *_isa.cpp include it, which are compiled once per instruction
// set. Everything is in a namespace named after the set, so that the linker cannot merge functions of different sets.
//
// Part: the number of valid lanes, for the last columns of a ragged width. Other lanes are read as 0 and not written.
#pragma once
#include <cstdint>
#include <cstring>

#if !defined(LAMINA_ISA)
#error "simd.h is for files compiled once per instruction set"
#endif
// LAMINA_SIMD_BYTES: portable vectors of this size instead of the instruction set's. Tests use it to run the 64-byte paths.
#if !defined(LAMINA_SIMD_BYTES) && (defined(__AVX512F__) || defined(__AVX2__))
#include <immintrin.h>
#endif

namespace lamina::kernels::cpu::LAMINA_ISA {

#define LAMINA_INLINE inline __attribute__((always_inline))
#define LAMINA_INLINE_LAMBDA __attribute__((always_inline))

template <class T>
struct Simd;

#if !defined(LAMINA_SIMD_BYTES) && defined(__AVX512F__)

inline constexpr int kRegisters = 32;

template <>
struct Simd<float> {
  using V = __m512;
  using Part = __mmask16;
  static constexpr int lanes = 16;
  static LAMINA_INLINE V zero() { return _mm512_setzero_ps(); }
  static LAMINA_INLINE V all(float x) { return _mm512_set1_ps(x); }
  static LAMINA_INLINE V load(const float* p) { return _mm512_loadu_ps(p); }
  static LAMINA_INLINE V load_groups(const float* p, int64_t step) {  // of four lanes, `step` elements apart
    V x = _mm512_castps128_ps512(_mm_loadu_ps(p));
    x = _mm512_insertf32x4(x, _mm_loadu_ps(p + step), 1);
    x = _mm512_insertf32x4(x, _mm_loadu_ps(p + 2 * step), 2);
    return _mm512_insertf32x4(x, _mm_loadu_ps(p + 3 * step), 3);
  }
  static LAMINA_INLINE void store(float* p, V x) { _mm512_storeu_ps(p, x); }
  static LAMINA_INLINE Part part(int n) { return Part((1u << n) - 1); }
  static LAMINA_INLINE V load(const float* p, Part part) { return _mm512_maskz_loadu_ps(part, p); }
  static LAMINA_INLINE void store(float* p, V x, Part part) { _mm512_mask_storeu_ps(p, part, x); }
  static LAMINA_INLINE V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static LAMINA_INLINE V zero_unless_above_zero(V x, V y) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, zero(), _CMP_GT_OQ), x); }
  static LAMINA_INLINE V relu(V x) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, zero(), _CMP_NLE_UQ), x); }
};

template <>
struct Simd<double> {
  using V = __m512d;
  using Part = __mmask8;
  static constexpr int lanes = 8;
  static LAMINA_INLINE V zero() { return _mm512_setzero_pd(); }
  static LAMINA_INLINE V all(double x) { return _mm512_set1_pd(x); }
  static LAMINA_INLINE V load(const double* p) { return _mm512_loadu_pd(p); }
  static LAMINA_INLINE void store(double* p, V x) { _mm512_storeu_pd(p, x); }
  static LAMINA_INLINE Part part(int n) { return Part((1u << n) - 1); }
  static LAMINA_INLINE V load(const double* p, Part part) { return _mm512_maskz_loadu_pd(part, p); }
  static LAMINA_INLINE void store(double* p, V x, Part part) { _mm512_mask_storeu_pd(p, part, x); }
  static LAMINA_INLINE V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static LAMINA_INLINE V zero_unless_above_zero(V x, V y) { return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(y, zero(), _CMP_GT_OQ), x); }
  static LAMINA_INLINE V relu(V x) { return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, zero(), _CMP_NLE_UQ), x); }
};

#elif !defined(LAMINA_SIMD_BYTES) && defined(__AVX2__)

inline constexpr int kRegisters = 16;
alignas(64) inline constexpr int32_t kPartMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

template <>
struct Simd<float> {
  using V = __m256;
  struct Part {
    __m256i mask;
    int n;
  };
  static constexpr int lanes = 8;
  static LAMINA_INLINE V zero() { return _mm256_setzero_ps(); }
  static LAMINA_INLINE V all(float x) { return _mm256_set1_ps(x); }
  static LAMINA_INLINE V load(const float* p) { return _mm256_loadu_ps(p); }
  static LAMINA_INLINE void store(float* p, V x) { _mm256_storeu_ps(p, x); }
  static LAMINA_INLINE Part part(int n) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(kPartMask + 8 - n)), n}; }
  static LAMINA_INLINE V load(const float* p, Part part) { return _mm256_maskload_ps(p, part.mask); }
  static LAMINA_INLINE V load_groups(const float* p, int64_t step) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + step), 1);
  }
  // In halves: masked stores take tens of cycles on some processors.
  static LAMINA_INLINE void store(float* p, V x, Part part) {
    __m128 v = _mm256_castps256_ps128(x);
    if (part.n & 4) {
      _mm_storeu_ps(p, v);
      p += 4;
      v = _mm256_extractf128_ps(x, 1);
    }
    if (part.n & 2) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), v);
      p += 2;
      v = _mm_movehl_ps(v, v);
    }
    if (part.n & 1) _mm_store_ss(p, v);
  }
  static LAMINA_INLINE V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static LAMINA_INLINE V zero_unless_above_zero(V x, V y) { return _mm256_and_ps(_mm256_cmp_ps(y, zero(), _CMP_GT_OQ), x); }
  static LAMINA_INLINE V relu(V x) { return _mm256_and_ps(_mm256_cmp_ps(x, zero(), _CMP_NLE_UQ), x); }
};

template <>
struct Simd<double> {
  using V = __m256d;
  struct Part {
    __m256i mask;
    int n;
  };
  static constexpr int lanes = 4;
  static LAMINA_INLINE V zero() { return _mm256_setzero_pd(); }
  static LAMINA_INLINE V all(double x) { return _mm256_set1_pd(x); }
  static LAMINA_INLINE V load(const double* p) { return _mm256_loadu_pd(p); }
  static LAMINA_INLINE void store(double* p, V x) { _mm256_storeu_pd(p, x); }
  static LAMINA_INLINE Part part(int n) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(kPartMask + 8 - 2 * n)), n}; }
  static LAMINA_INLINE V load(const double* p, Part part) { return _mm256_maskload_pd(p, part.mask); }
  static LAMINA_INLINE void store(double* p, V x, Part part) {
    __m128d v = _mm256_castpd256_pd128(x);
    if (part.n & 2) {
      _mm_storeu_pd(p, v);
      p += 2;
      v = _mm256_extractf128_pd(x, 1);
    }
    if (part.n & 1) _mm_store_sd(p, v);
  }
  static LAMINA_INLINE V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static LAMINA_INLINE V zero_unless_above_zero(V x, V y) { return _mm256_and_pd(_mm256_cmp_pd(y, zero(), _CMP_GT_OQ), x); }
  static LAMINA_INLINE V relu(V x) { return _mm256_and_pd(_mm256_cmp_pd(x, zero(), _CMP_NLE_UQ), x); }
};

#else

#if !defined(LAMINA_SIMD_BYTES)
#define LAMINA_SIMD_BYTES 16
#endif
inline constexpr int kRegisters = LAMINA_SIMD_BYTES == 64 ? 32 : 16;

// a * b + c with one rounding, without an FMA instruction. The product of floats is exact in double; its sum with c is rounded to odd, so
// that the final rounding to float is correct (Boldo and Melquiond 2008).
template <class V, class W, class I>
LAMINA_INLINE V fma_through_double(V a, V b, V c) {
  const W product = __builtin_convertvector(a, W) * __builtin_convertvector(b, W), addend = __builtin_convertvector(c, W);
  const W sum = product + addend, part = sum - product, error = (product - (sum - part)) + (addend - part);
  const I positive = error > 0, inexact = positive | (error < 0), grows = ~(positive ^ (sum > 0));
  I bits;
  std::memcpy(&bits, &sum, sizeof bits);
  bits += ((grows & 2) - 1) & inexact & ((bits & 1) - 1);
  W odd;
  std::memcpy(&odd, &bits, sizeof odd);
  return __builtin_convertvector(odd, V);
}

// The compiler's portable vectors; every processor supports 16 bytes.
template <class T>
struct Simd {
  typedef T V __attribute__((vector_size(LAMINA_SIMD_BYTES)));
  using Part = int;
  static constexpr int lanes = LAMINA_SIMD_BYTES / int(sizeof(T));
  static LAMINA_INLINE V zero() { return V{}; }
  static LAMINA_INLINE V all(T x) { return x - V{}; }  // x - 0 is x, also for -0
  static LAMINA_INLINE V load(const T* p) {
    V x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  static LAMINA_INLINE V load_groups(const T* p, int64_t step) {
    V x;
    for (int g = 0; g < lanes; g += 4) std::memcpy(reinterpret_cast<T*>(&x) + g, p + g / 4 * step, 4 * sizeof(T));
    return x;
  }
  static LAMINA_INLINE void store(T* p, V x) { std::memcpy(p, &x, sizeof x); }
  static LAMINA_INLINE Part part(int n) { return n; }
  static LAMINA_INLINE V load(const T* p, Part part) {
    V x{};
    for (int i = 0; i < lanes; ++i)
      if (i < part) x[i] = p[i];
    return x;
  }
  static LAMINA_INLINE void store(T* p, V x, Part part) {
    for (int i = 0; i < lanes; ++i)
      if (i < part) p[i] = x[i];
  }
  static LAMINA_INLINE V fma(V a, V b, V c) {
    if constexpr (sizeof(T) == sizeof(float) && LAMINA_SIMD_BYTES == 16) {
      typedef double W __attribute__((vector_size(2 * LAMINA_SIMD_BYTES)));
      typedef int64_t I __attribute__((vector_size(2 * LAMINA_SIMD_BYTES)));
      return fma_through_double<V, W, I>(a, b, c);
    } else {
      return fma_by_element(a, b, c);
    }
  }
  static LAMINA_INLINE V zero_unless_above_zero(V x, V y) { return y > zero() ? x : zero(); }
  static LAMINA_INLINE V relu(V x) { return x <= zero() ? zero() : x; }

 private:
  [[gnu::noinline]] static V fma_by_element(const V& a, const V& b, const V& c) {
    V y;
    for (int i = 0; i < lanes; ++i)
      y[i] = sizeof(T) == sizeof(float) ? T(__builtin_fmaf(float(a[i]), float(b[i]), float(c[i]))) : T(__builtin_fma(a[i], b[i], c[i]));
    return y;
  }
};

#endif

}  // namespace lamina::kernels::cpu::LAMINA_ISA
