// Random tensors in host memory, which acts as GPU memory where the libraries are fakes.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "runtime/core/half.h"
#include "runtime/core/view.h"

namespace lamina::cuda {

// 256-byte aligned, or `shift` elements beyond that.
template <class T>
class Numbers {
 public:
  Numbers(std::vector<int64_t> shape, uint64_t seed, size_t shift = 0) : shape_(std::move(shape)), shift_(shift) {
    for (int64_t length : shape_) size_ *= length;
    const size_t bytes = (size_t(size_) + shift_) * sizeof(T) + 256;
    memory_.reset(static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)));
    std::mt19937_64 random(seed);
    for (int64_t i = 0; i < size_; ++i) data()[i] = T(float(std::uniform_real_distribution<double>(-1, 1)(random)));
  }
  T* data() const { return reinterpret_cast<T*>(memory_.get()) + shift_; }
  int64_t size() const { return size_; }
  View view() const {
    View v;
    v.data = data(), v.dtype = dtype_of<T>(), v.rank = int32_t(shape_.size());
    int64_t step = 1;
    for (int a = v.rank - 1; a >= 0; --a) v.shape[a] = shape_[size_t(a)], v.strides[a] = step, step *= shape_[size_t(a)];
    return v;
  }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::vector<int64_t> shape_;
  size_t shift_ = 0;
  int64_t size_ = 1;
  std::unique_ptr<char, Free> memory_;
};

template <class T>
double tolerance() {
  return sizeof(T) == 8 ? 1e-13 : sizeof(T) == 4 ? 2e-6 : std::is_same_v<T, f16> ? 2e-3 : 1.6e-2;
}
template <class T>
void expect_close(const Numbers<T>& got, const Numbers<T>& want) {
  double largest = 0;
  for (int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(double(float(want.data()[i]))));
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(double(float(got.data()[i])), double(float(want.data()[i])), tolerance<T>() * largest) << "element " << i;
}

}  // namespace lamina::cuda
