// Conversions between types. From and To are an unsigned char (a bool, 0 or 1, or a u8), another integer, float or double. Floats truncate
// to integers: NaN gives 0, values out of range the nearest bound. Integers wrap. bool is x != 0. Compiled by g++ and nvcc alike.
#pragma once
#include "kernels/shared/scalar_math.h"

namespace lamina::kernels {
namespace scalar {
#if defined(LAMINA_ISA)
inline namespace LAMINA_ISA {  // one copy per instruction set: the linker must not merge them
#endif

using Bool = unsigned char;

template <class T>
inline constexpr bool is_signed = T(-1) < T(0);

template <class From>
LAMINA_SCALAR Bool to_bool(From x) {
  return x != 0;
}
// Converts to float by rounding to odd (truncate, then set the last bit if inexact), so that a following conversion to a half type rounds
// correctly.
template <class From>
LAMINA_SCALAR float cut_to_float(From x) {
  if constexpr (sizeof(From) <= 2 || (sizeof(From) == 4 && is_float<From>)) {
    return float(x);
  } else if constexpr (!is_float<From>) {  // as a double: exact, or 48 bits and a sticky bit
    const bool exact = sizeof(From) == 4 || ((!is_signed<From> || x > From(-(1ll << 52))) && x < From(1ll << 52)) || !(x & 0xffff);
    return cut_to_float(double(exact ? x : From((x & From(~0xffffll)) | 0x8000)));
  } else {
    const float f = float(x);
    const bool above = absolute(double(f)) > absolute(x);
    const float odd = float_of((bits_of(f) - above) | 1);
    return double(f) == x || x != x ? f : odd;
  }
}
template <class To, class From>
LAMINA_SCALAR To cast(From x) {
  if constexpr (is_float<From> && !is_float<To>) {
    constexpr int bits = int(sizeof(To)) * 8 - (is_signed<To> ? 1 : 0);
    constexpr From end = From(2) * From(1ull << (bits - 1));  // the maximum plus one
    constexpr To largest = To(To(((1ull << (bits - 1)) - 1) * 2 + 1)), smallest = is_signed<To> ? To(-largest - 1) : To(0);
    From inside = x >= end || x != x ? From(0) : x;
    inside = inside <= From(smallest) ? From(smallest) : inside;
    To result = To(inside);
    return x >= end ? largest : result;
  } else {
    return To(x);
  }
}

#if defined(LAMINA_ISA)
}
#endif
}  // namespace scalar
}  // namespace lamina::kernels
