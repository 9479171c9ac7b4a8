// Arithmetic and conversion instructions, including tensor cores: see instructions.h.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/device.h"

namespace lamina::kernels::cuda::instructions {

// How many cases to try, and the allowed error of a sum within one tensor core instruction, relative to the sum of its terms' sizes.
struct Trial {
  unsigned numbers = 4096;  // per conversion
  double sums = 0x1p-24;
};

template <class T>
T from_bits(unsigned long long bits) {
  T v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

// --- numbers ---

LAMINA_KERNEL(256) convert(const float* in, unsigned count, unsigned* tf32, unsigned* bf16) {
  for (unsigned i = block_index() * block_size() + thread_index(); i < count; i += block_count() * block_size()) {
    tf32[i] = tf32_bits(in[i]);
    bf16[i] = bf16_pair(in[i], in[count - 1 - i]);
  }
}
template <class T>
LAMINA_KERNEL(256)
multiply_add(const T* in, unsigned count, T* fused, T* apart) {
  for (unsigned i = block_index() * block_size() + thread_index(); i < count; i += block_count() * block_size()) {
    const T a = in[i], b = in[(i + 1) % count], c = in[(i + 2) % count];
    fused[i] = fma(a, b, c);
    apart[i] = a * b + c;
  }
}

// Rounds to this many bits after the leading one; ties to even, or away from zero.
inline float rounded(float v, int bits, bool to_even) {
  if (!std::isfinite(v)) return v;
  int exponent = 0;
  std::frexp(v, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, -126) - bits), steps = double(v) / step;
  const double out = (to_even ? std::nearbyint(steps) : std::round(steps)) * step;
  return std::copysign(std::abs(out) > 0x1.fffffep127 ? HUGE_VALF : float(out), v);
}
inline bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0; }
inline bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0; }

template <class M>
bool conversions_agree(M& m, const Trial& trial) {
  std::mt19937 random(1);
  std::vector<float> in{0.0f,      -0.0f,     HUGE_VALF,     -HUGE_VALF, std::nanf(""), 0x1.fffffep127f, -0x1.fffffep127f,
                        0x1p-149f, 0x1p-126f, 0x1.ffffp-127f};
  while (in.size() < trial.numbers) {
    const unsigned bits = unsigned(random());
    for (unsigned cut : {0u, 0xfffu, 0x1fffu, 0x7fffu, 0xffffu}) in.push_back(from_bits<float>(bits & ~cut));  // also exact values and ties
  }
  const size_t n = in.size();
  unsigned *tf32 = m.put(std::vector<unsigned>(n)), *bf16 = m.put(std::vector<unsigned>(n));
  launch<convert>(m.stream(), {.grid = {4}, .threads = 256}, m.put(in), unsigned(n), tf32, bf16);
  const std::vector<unsigned> got = m.take(tf32, n), pairs = m.take(bf16, n);
  bool agree = true;
  for (size_t i = 0; i < n; ++i) {
    agree &= same(from_bits<float>(got[i]), rounded(in[i], 10, false));
    agree &= same(from_bits<float>(pairs[i] << 16), rounded(in[i], 7, true)) &&
             same(from_bits<float>(pairs[i] & 0xffff0000u), rounded(in[n - 1 - i], 7, true));
  }
  return agree;
}

template <class T, class M>
bool multiply_adds_agree(M& m, const Trial& trial) {
  std::mt19937_64 random(2);
  std::vector<T> in{0, T(-0.0), T(HUGE_VAL), T(1), T(std::nan(""))};
  while (in.size() < trial.numbers) in.push_back(T(std::ldexp(std::normal_distribution<double>()(random), int(random() % 40) - 20)));
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

// --- tensor cores ---

// A warp's c [16, 8] += a [16, depth] b [depth, 8], by the fragments of the PTX manual.
template <bool of_bf16>
LAMINA_KERNEL(64)
product(const float* a, const float* b, float* c) {
  constexpr int depth = of_bf16 ? 16 : 8;
  a += warp_index() * 16 * depth, b += warp_index() * depth * 8, c += warp_index() * 16 * 8;
  const int group = int(lane() >> 2), in_group = int(lane() % 4);
  unsigned first[4], second[2];
  for (int i = 0; i < 4; ++i) {
    const int row = group + 8 * (i % 2), k = of_bf16 ? 2 * in_group + 8 * (i / 2) : in_group + 4 * (i / 2);
    first[i] = of_bf16 ? bf16_pair(a[row * depth + k], a[row * depth + k + 1]) : tf32_bits(a[row * depth + k]);
  }
  for (int i = 0; i < 2; ++i) {
    const int k = of_bf16 ? 2 * in_group + 8 * i : in_group + 4 * i;
    second[i] = of_bf16 ? bf16_pair(b[k * 8 + group], b[(k + 1) * 8 + group]) : tf32_bits(b[k * 8 + group]);
  }
  float sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = c[(group + 8 * (i / 2)) * 8 + 2 * in_group + i % 2];
  if constexpr (of_bf16)
    mma_bf16(sums, first, second);
  else
    mma_tf32(sums, first, second);
  for (int i = 0; i < 4; ++i) c[(group + 8 * (i / 2)) * 8 + 2 * in_group + i % 2] = sums[i];
}
// Integers must be exact: they identify every element's position. Other values may lose digits within an instruction.
template <bool of_bf16, class M>
bool products_agree(M& m, const Trial& trial, bool whole) {
  constexpr int depth = of_bf16 ? 16 : 8, warps = 2;
  std::mt19937 random(3);
  const auto numbers = [&](int count) {
    std::vector<float> v;
    while (int(v.size()) < count) v.push_back(whole ? float(int(random() % 33) - 16) : std::normal_distribution<float>()(random));
    return v;
  };
  bool agree = true;
  for (int turn = 0; turn < 20; ++turn) {
    const std::vector<float> a = numbers(warps * 16 * depth), b = numbers(warps * depth * 8), start = numbers(warps * 16 * 8);
    float* c = m.put(start);
    launch<product<of_bf16>>(m.stream(), {.threads = warps * kWarp}, m.put(a), m.put(b), c);
    const std::vector<float> got = m.take(c, start.size());
    const auto operand = [](float v) { return double(rounded(v, of_bf16 ? 7 : 10, of_bf16)); };
    for (int w = 0; w < warps; ++w)
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
          const size_t at = size_t((w * 16 + row) * 8 + column);
          double sum = start[at], size = std::abs(sum);
          for (int k = 0; k < depth; ++k) {
            const double term = operand(a[size_t((w * 16 + row) * depth + k)]) * operand(b[size_t((w * depth + k) * 8 + column)]);
            sum += term, size += std::abs(term);
          }
          agree &= std::abs(got[at] - sum) <= (whole ? 0 : trial.sums * size);
        }
  }
  return agree;
}

}  // namespace lamina::kernels::cuda::instructions
