// Arithmetic instructions: see instructions.h.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/device.h"

namespace lamina::kernels::cuda::instructions {

// --- numbers ---

template <class T>
LAMINA_KERNEL(256)
multiply_add(const T* in, unsigned count, T* fused, T* apart) {
  for (unsigned i = block_index() * block_size() + thread_index(); i < count; i += block_count() * block_size()) {
    const T a = in[i], b = in[(i + 1) % count], c = in[(i + 2) % count];
    fused[i] = fma(a, b, c);
    apart[i] = a * b + c;
  }
}

inline bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0; }
inline bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0; }

template <class T, class M>
bool multiply_adds_agree(M& m, unsigned numbers) {
  std::mt19937_64 random(2);
  std::vector<T> in{0, T(-0.0), T(HUGE_VAL), T(1), T(std::nan(""))};
  while (in.size() < numbers) in.push_back(T(std::ldexp(std::normal_distribution<double>()(random), int(random() % 40) - 20)));
  const size_t n = in.size();
  T *fused = m.put(std::vector<T>(n)), *apart = m.put(std::vector<T>(n));
  launch<multiply_add<T>>(m.stream(), {.grid = {4}, .threads = 256}, m.put(in), unsigned(n), fused, apart);
  const std::vector<T> one = m.take(fused, n), two = m.take(apart, n);
  bool agree = true;
  for (size_t i = 0; i < n; ++i) {
    const T a = in[i], b = in[(i + 1) % n], c = in[(i + 2) % n];
    volatile T product = a * b;
    agree &= same(one[i], std::fma(a, b, c)) && same(two[i], T(product + c));
  }
  return agree;
}

}  // namespace lamina::kernels::cuda::instructions
