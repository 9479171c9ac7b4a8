// Accurate sums of many terms: partial sums over spans, added with error compensation.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dense.h"

namespace lamina::kernels::cpu {

// c[m,n] = the sum over k terms. part(begin, count, to, ld_to) sets to[m,n] to the sum of terms begin to begin + count, at most `span`.
// Rounding errors of the additions are collected by Knuth's two-sum and added at the end.
template <class C, class Part>
void add_spans(int64_t m, int64_t n, int64_t k, int64_t span, C* c, int64_t ldc, const Part& part) {
  part(0, std::min(span, k), c, ldc);
  if (k <= span) return;
  C* next = reinterpret_cast<C*>(thread_scratch(Scratch::span, 2 * m * n * int64_t(sizeof(C) / sizeof(float))));
  C* lost = next + m * n;
  std::fill(lost, lost + m * n, C(0));
  for (int64_t begin = span; begin < k; begin += span) {
    part(begin, std::min(span, k - begin), next, n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const C a = c[i * ldc + j], b = next[i * n + j], sum = a + b, of_b = sum - a, of_a = sum - of_b;
        c[i * ldc + j] = sum;
        lost[i * n + j] += (a - of_a) + (b - of_b);
      }
  }
  // An infinite sum has no rounding error.
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (const C rest = lost[i * n + j]; rest - rest == 0) c[i * ldc + j] += rest;
}

}  // namespace lamina::kernels::cpu
