// Compiled once per instruction set (LAMINA_ISA). The compiler vectorizes these loops; the operations are the same in all of them.
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "kernels/cpu/elementwise_table.h"
#include "kernels/cpu/subnormals.h"

namespace lamina::kernels::cpu::LAMINA_ISA {
namespace {

namespace ops = lamina::kernels::scalar;
using ops::Bool;

// clang-format off
template <int I>
struct TypeOf;
template <>
struct TypeOf<0> { using type = unsigned char; };
template <>
struct TypeOf<1> { using type = signed char; };
template <>
struct TypeOf<2> { using type = short; };
template <>
struct TypeOf<3> { using type = int; };
template <>
struct TypeOf<4> { using type = int64_t; };
template <>
struct TypeOf<5> { using type = float; };
template <>
struct TypeOf<6> { using type = double; };
template <>
struct TypeOf<7> { using type = unsigned short; };
template <>
struct TypeOf<8> { using type = unsigned; };
template <>
struct TypeOf<9> { using type = uint64_t; };
// clang-format on

template <ScalarOp op, class T>
[[gnu::always_inline]] inline auto apply(T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {
#define ELEMENTWISE(name, operands, ...) \
  if constexpr (op == ScalarOp::name) return LAMINA_SCALAR_CALL(name, operands);
#include "kernels/shared/elementwise_ops.inc"
}

// Trigonometric functions of moderate arguments: without calls of the C library, loops vectorise.
template <ScalarOp op>
bool near_loop(int64_t n, float* to, const float* x) {
  int far = 0;
  for (int64_t i = 0; i < n; ++i) far |= !ops::is_near(x[i]);
  if (far) return false;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (op == ScalarOp::cos) to[i] = ops::near_cos(x[i]);
    if constexpr (op == ScalarOp::sin) to[i] = ops::near_sin(x[i]);
    if constexpr (op == ScalarOp::tan) to[i] = ops::near_tan(x[i]);
  }
  return true;
}

// ivdep: an output may be one of the operands, element for element.
template <ScalarOp op, class T>
void loop(int64_t n, void* out, const void* a, const void* b, const void* c) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  const T* z = static_cast<const T*>(c);
  if constexpr (op == ScalarOp::where) {
    const Bool* condition = static_cast<const Bool*>(a);
    T* to = static_cast<T*>(out);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = ops::where(condition[i], y[i], z[i]);
  } else {
    using R = decltype(apply<op>(T(), T(), T()));
    R* to = static_cast<R*>(out);
    if constexpr (!is_slow(op))
      if (n == 1) {  // numbers, as in the bodies of loops
        to[0] = apply<op>(x[0], operands(op) > 1 ? y[0] : T(), operands(op) > 2 ? z[0] : T());
        return;
      }
    if constexpr (sizeof(T) == 4 && (op == ScalarOp::cos || op == ScalarOp::sin || op == ScalarOp::tan))
      if (near_loop<op>(n, to, x)) return;
    if constexpr (operands(op) == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = apply<op>(x[i], T(), T());
    } else if constexpr (operands(op) == 2) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = apply<op>(x[i], y[i], T());
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = apply<op>(x[i], y[i], z[i]);
    }
  }
}

template <ScalarOp p, ScalarOp q, bool turned, class T>
void pair(int64_t n, void* out, const void* a, const void* b, const void* c) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  const T* z = static_cast<const T*>(c);
  T* to = static_cast<T*>(out);
  const auto both = [=](int64_t i) __attribute__((always_inline)) {
    const T r = apply<p>(x[i], y[i], T());
    return turned ? apply<q>(z[i], r, T()) : apply<q>(r, z[i], T());
  };
  if (n == 1) {
    to[0] = both(0);
    return;
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = both(i);
}

template <int which>
constexpr KnownCode known_of = known::kCodes[which];

template <int which, int... I, int... C, int... K, int... O>
[[gnu::always_inline]] inline void known_loop(int64_t n, const float* const* in, const float* constants, float* const* out,
                                              std::integer_sequence<int, I...>, std::integer_sequence<int, C...>,
                                              std::integer_sequence<int, K...>, std::integer_sequence<int, O...>) {
  constexpr int first_result = known_of<which>.inputs + known_of<which>.constants;
  const float* const x[] = {in[I]...};
  const float number[] = {*in[I]...}, constant[] = {constants[C]...};
  float* const to[] = {out[O]...};
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    float v[first_result + known_of<which>.instructions];
    ((v[I] = known_of<which>.numbers >> I & 1 ? number[I] : x[I][i]), ...);
    ((v[known_of<which>.inputs + C] = constant[C]), ...);
    ((v[first_result + K] = apply<known_of<which>.code[K].op>(v[known_of<which>.code[K].a], v[known_of<which>.code[K].b], 0.0f)), ...);
    ((to[O][i] = v[known_of<which>.output[O]]), ...);
  }
}
// A moment that is subnormal changes no weight, except by its sign.
template <int which>
constexpr bool minds_subnormals =
    std::any_of(std::begin(known_of<which>.code), std::end(known_of<which>.code), [](auto& i) { return i.op == ScalarOp::sign; });
template <int which>
void known_loop(int64_t n, const float* const* in, const float* constants, float* const* out) {
  [[maybe_unused]] const std::conditional_t<minds_subnormals<which>, char, SubnormalsAreZero> mode{};
  known_loop<which>(n, in, constants, out, std::make_integer_sequence<int, known_of<which>.inputs>(),
                    std::make_integer_sequence<int, known_of<which>.constants>(),
                    std::make_integer_sequence<int, known_of<which>.instructions>(),
                    std::make_integer_sequence<int, known_of<which>.outputs>());
}
template <int... which>
constexpr ElementwiseTable with_known_loops(ElementwiseTable table, std::integer_sequence<int, which...>) {
  ((table.known[which] = known_loop<which>), ...);
  return table;
}

template <class From, class To>
void cast_loop(int64_t n, void* out, const void* a, const void*, const void*) {
  const From* x = static_cast<const From*>(a);
  To* to = static_cast<To*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = ops::cast<To>(x[i]);
}
template <class From>
void bool_loop(int64_t n, void* out, const void* a, const void*, const void*) {
  const From* x = static_cast<const From*>(a);
  Bool* to = static_cast<Bool*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = ops::to_bool(x[i]);
}

template <class From>
void half_loop(int64_t n, void* out, const void* a, const void*, const void*) {
  const From* x = static_cast<const From*>(a);
  float* to = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = ops::cut_to_float(x[i]);
}

[[gnu::always_inline]] inline uint16_t to_bf16(float f) {
  uint32_t x = uint32_t(ops::bits_of(f)), rounded = (x + 0x7fff + ((x >> 16) & 1)) >> 16;
  return uint16_t((x & 0x7fffffff) > 0x7f800000 ? (x >> 16) | 0x40 : rounded);
}
[[gnu::always_inline]] inline float from_bf16(uint16_t h) { return ops::float_of(int(uint32_t(h) << 16)); }
#if defined(__F16C__)
[[gnu::always_inline]] inline uint16_t to_f16(float f) {
  return uint16_t(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), 0));
}
[[gnu::always_inline]] inline float from_f16(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
#else
[[gnu::always_inline]] inline uint16_t to_f16(float f) { return f16_bits(f); }
[[gnu::always_inline]] inline float from_f16(uint16_t h) { return f16_value(h); }
#endif

void f16_to_f32(int64_t n, void* out, const void* a, const void*, const void*) {
  const uint16_t* x = static_cast<const uint16_t*>(a);
  float* to = static_cast<float*>(out);
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
#endif
  for (; i < n; ++i) to[i] = from_f16(x[i]);
}
void f32_to_f16(int64_t n, void* out, const void* a, const void*, const void*) {
  const float* x = static_cast<const float*>(a);
  uint16_t* to = static_cast<uint16_t*>(out);
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; ++i) to[i] = to_f16(x[i]);
}
void round_f16(int64_t n, void* out, const void* a, const void*, const void*) {
  const float* x = static_cast<const float*>(a);
  float* to = static_cast<float*>(out);
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)));
#endif
  for (; i < n; ++i) to[i] = from_f16(to_f16(x[i]));
}
void bf16_to_f32(int64_t n, void* out, const void* a, const void*, const void*) {
  const uint16_t* x = static_cast<const uint16_t*>(a);
  float* to = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = from_bf16(x[i]);
}
void f32_to_bf16(int64_t n, void* out, const void* a, const void*, const void*) {
  const float* x = static_cast<const float*>(a);
  uint16_t* to = static_cast<uint16_t*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = to_bf16(x[i]);
}
void round_bf16(int64_t n, void* out, const void* a, const void*, const void*) {
  const float* x = static_cast<const float*>(a);
  float* to = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = from_bf16(to_bf16(x[i]));
}

template <class T>
void fill(int64_t n, void* out, const void* a, const void*, const void*) {
  const T value = *static_cast<const T*>(a);
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

template <ScalarOp op, int I>
constexpr Loop loop_of() {
  constexpr Domain d = domain(op);
  constexpr bool floating = I >= int(Compute::f32);
  constexpr bool whole_only = d == Domain::integer || d == Domain::bits;
  if constexpr ((d == Domain::floating && !floating) || (whole_only && floating) || (d == Domain::boolean && I != int(Compute::u8)))
    return nullptr;
  else
    return loop<op, typename TypeOf<I>::type>;
}
template <int From, int To>
constexpr Loop cast_of() {
  if constexpr (From == To)
    return nullptr;
  else
    return cast_loop<typename TypeOf<From>::type, typename TypeOf<To>::type>;
}
#define LAMINA_PAIRED(p, q, T) {pair<kPaired[p], kPaired[q], false, T>, pair<kPaired[p], kPaired[q], true, T>}
#define LAMINA_PAIRS_OF(p, T) {LAMINA_PAIRED(p, 0, T), LAMINA_PAIRED(p, 1, T), LAMINA_PAIRED(p, 2, T)}
#define LAMINA_PAIRS(T) {LAMINA_PAIRS_OF(0, T), LAMINA_PAIRS_OF(1, T), LAMINA_PAIRS_OF(2, T)}
#define LAMINA_ROW(f, x, ...) {f<x, 0>(), f<x, 1>(), f<x, 2>(), f<x, 3>(), f<x, 4>(), f<x, 5>(), f<x, 6>() __VA_ARGS__}
#define LAMINA_CASTS(from) LAMINA_ROW(cast_of, from, , cast_of<from, 7>(), cast_of<from, 8>(), cast_of<from, 9>())

}  // namespace

extern constinit const ElementwiseTable elementwise_table = with_known_loops(
    {
        .loops =
            {
#define ELEMENTWISE(name, ...) LAMINA_ROW(loop_of, ScalarOp::name),
#include "kernels/shared/elementwise_ops.inc"
            },
        .casts = {LAMINA_CASTS(0), LAMINA_CASTS(1), LAMINA_CASTS(2), LAMINA_CASTS(3), LAMINA_CASTS(4), LAMINA_CASTS(5), LAMINA_CASTS(6),
                  LAMINA_CASTS(7), LAMINA_CASTS(8), LAMINA_CASTS(9)},
        .to_bool = {bool_loop<TypeOf<0>::type>, bool_loop<TypeOf<1>::type>, bool_loop<TypeOf<2>::type>, bool_loop<TypeOf<3>::type>,
                    bool_loop<TypeOf<4>::type>, bool_loop<TypeOf<5>::type>, bool_loop<TypeOf<6>::type>, bool_loop<TypeOf<7>::type>,
                    bool_loop<TypeOf<8>::type>, bool_loop<TypeOf<9>::type>},
        .to_half = {half_loop<TypeOf<0>::type>, half_loop<TypeOf<1>::type>, half_loop<TypeOf<2>::type>, half_loop<TypeOf<3>::type>,
                    half_loop<TypeOf<4>::type>, nullptr, half_loop<TypeOf<6>::type>, half_loop<TypeOf<7>::type>, half_loop<TypeOf<8>::type>,
                    half_loop<TypeOf<9>::type>},
        .f16_to_f32 = f16_to_f32,
        .f32_to_f16 = f32_to_f16,
        .bf16_to_f32 = bf16_to_f32,
        .f32_to_bf16 = f32_to_bf16,
        .round_f16 = round_f16,
        .round_bf16 = round_bf16,
        .fill = {fill<uint8_t>, fill<uint16_t>, fill<uint32_t>, fill<uint64_t>},
        .pairs = {LAMINA_PAIRS(float), LAMINA_PAIRS(double)},
    },
    std::make_integer_sequence<int, kKnownCodes>());

}  // namespace lamina::kernels::cpu::LAMINA_ISA
