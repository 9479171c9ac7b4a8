// View: address, shape and strides of a tensor's elements. Kernels read and write Views.
#pragma once
#include <cstdint>

#include "runtime/core/dtype.h"
#include "runtime/core/type.h"

namespace lamina {

inline constexpr int kMaxRank = 8;

struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  int32_t rank = 0;
  int64_t shape[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};  // in elements; 0 repeats

  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

LAMINA_API View contiguous_view(void* data, const TensorType& type);  // row-major; the shape must be known
LAMINA_API bool is_contiguous(const View& view);

}  // namespace lamina
