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

}  // namespace lamina::kernels::cpu
