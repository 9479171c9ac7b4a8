// Accumulators for results: the result's own memory, or floats for half types, so that these are rounded once at the end.
#pragma once
#include <cstdint>
#include <type_traits>
#include <vector>

#include "runtime/core/half.h"

namespace lamina::kernels::cpu {

template <class T>
class Sums {
 public:
  Sums(T* result, int64_t count) : result_(result), wide_(kInPlace ? 0 : size_t(count)) {}
  ~Sums() {
    for (size_t i = 0; i < wide_.size(); ++i) result_[i] = T(wide_[i]);
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  compute_t<T>* data() {
    if constexpr (kInPlace)
      return result_;
    else
      return wide_.data();
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<T, compute_t<T>>;
  T* result_;
  std::vector<compute_t<T>> wide_;
};

}  // namespace lamina::kernels::cpu
