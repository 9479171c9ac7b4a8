// f16 (IEEE half) and bf16 as storage types. Arithmetic happens in float.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace lamina {

// Rounds to nearest even, as the hardware does; NaN stays NaN.
inline uint16_t f16_bits(float f) {
  uint32_t x = std::bit_cast<uint32_t>(f), sign = (x >> 16) & 0x8000;
  x &= 0x7fffffff;
  if (x >= 0x7f800000) return uint16_t(sign | 0x7c00 | (x > 0x7f800000 ? 0x200 | ((x >> 13) & 0x3ff) : 0));
  if (x >= 0x477ff000) return uint16_t(sign | 0x7c00);  // rounds to 65536 or more
  if (x < 0x38800000) {                                 // subnormal: a multiple of 2^-24
    float scaled = std::bit_cast<float>(x) * 16777216.0f;
    uint32_t q = uint32_t(scaled);
    float rest = scaled - float(q);
    return uint16_t(sign | (q + (rest > 0.5f || (rest == 0.5f && (q & 1)))));
  }
  uint32_t rounded = x + 0xfff + ((x >> 13) & 1);
  return uint16_t(sign | ((rounded - 0x38000000) >> 13));
}
inline float f16_value(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
  if (e == 31) return std::bit_cast<float>(sign | 0x7f800000 | (m << 13));
  if (e == 0) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(m) * (1.0f / 16777216.0f)));
  return std::bit_cast<float>(sign | ((e + 112) << 23) | (m << 13));
}
inline uint16_t bf16_bits(float f) {
  uint32_t x = std::bit_cast<uint32_t>(f);
  if ((x & 0x7fffffff) > 0x7f800000) return uint16_t((x >> 16) | 0x40);
  return uint16_t((x + 0x7fff + ((x >> 16) & 1)) >> 16);
}
inline float bf16_value(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }

// Converts to float by rounding to odd (truncate, then set the last bit if inexact), so that a following conversion to a half type rounds
// correctly.
inline float cut_to_float(double x) {
  const float f = float(x);
  if (double(f) == x || x != x) return f;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(f) - (std::fabs(double(f)) > std::fabs(x))) | 1);
}
inline float cut_to_float(int64_t x) {
  const bool exact = x > -(int64_t(1) << 52) && x < int64_t(1) << 52;  // as a double; otherwise 48 bits and a sticky bit
  return cut_to_float(double(exact || !(x & 0xffff) ? x : (x & ~int64_t(0xffff)) | 0x8000));
}

struct f16 {
  uint16_t bits = 0;
  f16() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  explicit f16(T x) : bits(f16_bits(as_float(x))) {}
  operator float() const { return f16_value(bits); }

  template <class T>
  static float as_float(T x) {
    if constexpr (std::is_same_v<T, float>)
      return x;
    else if constexpr (std::is_floating_point_v<T>)
      return cut_to_float(double(x));
    else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)  // the high 53 bits as a double, the last of them set if others are
      return x >> 63 ? cut_to_float(double((x & ~uint64_t(0x7ff)) | (x & 0x7ff ? 0x800 : 0))) : cut_to_float(int64_t(x));
    else
      return cut_to_float(int64_t(x));
  }
};
struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  explicit bf16(T x) : bits(bf16_bits(f16::as_float(x))) {}
  operator float() const { return bf16_value(bits); }
};

// The type in which a type's arithmetic is done.
template <class T>
struct Compute {
  using type = T;
};
template <>
struct Compute<f16> {
  using type = float;
};
template <>
struct Compute<bf16> {
  using type = float;
};
template <class T>
using compute_t = typename Compute<T>::type;

}  // namespace lamina
