// Reads integer tensors whose dtype is known only at run time.
#pragma once
#include "runtime/core/view.h"

namespace lamina::kernels::cpu {

// Element i of a contiguous integer view.
inline int64_t index_at(const View& v, int64_t i) {
  switch (v.dtype) {
    case DType::i64: return v.as<int64_t>()[i];
    case DType::i32: return v.as<int32_t>()[i];
    case DType::i16: return v.as<int16_t>()[i];
    case DType::i8: return v.as<int8_t>()[i];
    default: return v.as<uint8_t>()[i];
  }
}

// Calls f with a pointer to the elements of a contiguous integer view.
template <class F>
decltype(auto) with_indices(const View& v, F f) {
  switch (v.dtype) {
    case DType::i64: return f(v.as<const int64_t>());
    case DType::i32: return f(v.as<const int32_t>());
    case DType::i16: return f(v.as<const int16_t>());
    case DType::i8: return f(v.as<const int8_t>());
    default: return f(v.as<const uint8_t>());
  }
}

// The position of the first index that is not from -length to length - 1; -1 if there is none.
inline int64_t first_out_of_range(const View& indices, int64_t length) {
  return with_indices(indices, [&](const auto* index) -> int64_t {
    const int64_t n = indices.size();
    // An index plus the length is from 0 to 2 * length - 1: neither it nor its distance from the end is negative.
    uint64_t signs = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t place = uint64_t(index[i]) + uint64_t(length);
      signs |= place | (2 * uint64_t(length) - 1 - place);
    }
    const bool any = signs >> 63;
    for (int64_t i = 0; any && i < n; ++i)
      if (int64_t(index[i]) < -length || int64_t(index[i]) >= length) return i;
    return -1;
  });
}

}  // namespace lamina::kernels::cpu
