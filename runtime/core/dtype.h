// DType: the element type of a tensor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string_view>
#include <type_traits>

#include "runtime/core/export.h"
#include "runtime/core/half.h"

namespace lamina {

enum class DType : uint8_t { boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64, u16, u32, u64, c64, c128 };

namespace dtype {
inline constexpr DType boolean = DType::boolean, u8 = DType::u8, i8 = DType::i8, i16 = DType::i16, i32 = DType::i32, i64 = DType::i64,
                       f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, f64 = DType::f64, u16 = DType::u16, u32 = DType::u32,
                       u64 = DType::u64, c64 = DType::c64, c128 = DType::c128;
}

inline constexpr DType kDTypes[] = {DType::boolean, DType::u8,  DType::i8,  DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16,
                                    DType::f32,     DType::f64, DType::u16, DType::u32, DType::u64, DType::c64, DType::c128};

constexpr size_t size_of(DType d) {
  switch (d) {
    case DType::boolean:
    case DType::u8:
    case DType::i8: return 1;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i32:
    case DType::u32:
    case DType::f32: return 4;
    case DType::i64:
    case DType::u64:
    case DType::f64:
    case DType::c64: return 8;
    case DType::c128: return 16;
  }
  return 0;
}
constexpr bool is_floating(DType d) { return d >= DType::f16 && d <= DType::f64; }
constexpr bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
constexpr bool is_wide_unsigned(DType d) { return d >= DType::u16 && d <= DType::u64; }
constexpr bool is_integer(DType d) { return (d >= DType::u8 && d <= DType::i64) || is_wide_unsigned(d); }  // bool is neither
constexpr bool is_signed(DType d) { return d != DType::boolean && d != DType::u8 && !is_wide_unsigned(d); }
constexpr bool is_complex(DType d) { return d == DType::c64 || d == DType::c128; }
constexpr bool has_gradients(DType d) { return is_floating(d) || is_complex(d); }
// Few kernels know these dtypes; ops on them become ops on others (graph/frontend/rare_dtypes.h).
constexpr bool is_rare(DType d) { return d >= DType::u16; }
constexpr DType part_of(DType complex) { return complex == DType::c64 ? DType::f32 : DType::f64; }  // the dtype of its real part
constexpr DType complex_of(DType part) { return part == DType::f64 ? DType::c128 : DType::c64; }

LAMINA_API const char* name(DType d);                 // "f32": in printed graphs and C++ errors
LAMINA_API const char* numpy_name(DType d);           // "float32": for Python users
LAMINA_API DType parse_dtype(std::string_view text);  // accepts both; throws not_found
inline std::ostream& operator<<(std::ostream& out, DType d) { return out << name(d); }

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bool>() {
  return DType::boolean;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::i8;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::i16;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<f16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}

template <>
constexpr DType dtype_of<uint16_t>() {
  return DType::u16;
}
template <>
constexpr DType dtype_of<uint32_t>() {
  return DType::u32;
}
template <>
constexpr DType dtype_of<uint64_t>() {
  return DType::u64;
}

[[noreturn]] LAMINA_API void throw_no_real_numbers(DType complex);

// Calls f.operator()<T>() with the C++ type of d, whose elements are real numbers. Throws type for a complex dtype.
template <class F>
decltype(auto) with_dtype(DType d, F&& f) {
  switch (d) {
    case DType::boolean: return f.template operator()<bool>();
    case DType::u8: return f.template operator()<uint8_t>();
    case DType::i8: return f.template operator()<int8_t>();
    case DType::i16: return f.template operator()<int16_t>();
    case DType::i32: return f.template operator()<int32_t>();
    case DType::i64: return f.template operator()<int64_t>();
    case DType::f16: return f.template operator()<f16>();
    case DType::bf16: return f.template operator()<bf16>();
    case DType::f32: return f.template operator()<float>();
    case DType::u16: return f.template operator()<uint16_t>();
    case DType::u32: return f.template operator()<uint32_t>();
    case DType::u64: return f.template operator()<uint64_t>();
    case DType::c64:
    case DType::c128: throw_no_real_numbers(d);
    case DType::f64: break;
  }
  return f.template operator()<double>();
}

// Converts a number to an element. Half types and floats round once. A float becomes an integer by truncation: NaN becomes 0, values out of
// range the nearest bound. Integers wrap. bool is x != 0.
template <class T, class From>
T element_of(From x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x != From(0);
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    constexpr From end = From(std::numeric_limits<T>::max() / 2 + 1) * 2;  // the maximum plus one
    if (x != x) return 0;
    return x >= end ? std::numeric_limits<T>::max() : x <= From(std::numeric_limits<T>::min()) ? std::numeric_limits<T>::min() : T(x);
  } else {
    return T(x);
  }
}

}  // namespace lamina
