// The register-blocked matrix product behind all dense steps and matmuls: a table of functions per instruction set.
//
// An element of a product is ((0 + a0 b0) + a1 b1) + ... in the order of k; each step is a fused multiply-add, emulated where the
// instruction set lacks it. In f32, sums of more than kLongSum terms are cut into blocks of kSumBlock; the blocks of a span are added in
// order, and the spans with error compensation (long_sum.h). So the error stays that of a few thousand terms. The order depends only on k:
// not on shape, tile, cache block, thread or instruction set. A row's result does not depend on other rows, and a dense layer has the bits
// of a matmul followed by an addition. On x86, subnormal floats count as 0: dense_isa.cpp.
#pragma once
#include <cstdint>

#include "kernels/section/table.h"

namespace lamina::kernels::cpu {

inline constexpr int64_t kLongSum = 4096, kSumBlock = 192, kSumSpan = 64 * kSumBlock;

enum class Epilogue : uint8_t {
  none,        // c = product
  activation,  // c = act(product + bias); no bias: act(product)
  mask,        // c = product * act'(y)
  descent,     // c = w - rate * product
};

// c[m,n] (+)= op(a)[m,k] b[k,n], then the epilogue. All row-major; a transposed a is [k,m].
template <class T>
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;
  const T* b = nullptr;
  int64_t ldb = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;  // continue the sums that c holds
  bool add = false;         // sum the product from 0, then add it to c
  Epilogue epilogue = Epilogue::none;
  section::Activation activation = section::Activation::none;
  T alpha = 0;               // of the activation
  const T* bias = nullptr;   // [n]
  const T* other = nullptr;  // mask: y; descent: w. Same strides as c
  T rate = 0;
  // The matrix that the caller reads next, laid out as [k,n]: prefetched while the first rows are computed. May be null.
  const T* ahead = nullptr;
  int64_t ld_ahead = 0;
};

struct Tiles {
  void (*multiply_f32)(const Product<float>&);
  void (*multiply_f64)(const Product<double>&);
  // The first columns of a product with m = 1 and b stored as [n,k], without transposing b in memory. Returns the number of columns
  // computed: whole vectors.
  int64_t (*multiply_row_f32)(const Product<float>&);
  // The same, and to = b - rate * (x outer a) for these rows of b, x's elements, which are read once. to has b's strides and may be b.
  int64_t (*multiply_row_descend_f32)(const Product<float>&, const float* x, float rate, float* to);
  // to[j * ld_to + i] = from[i * ld_from + j] for i < rows, j < columns
  void (*transpose_f32)(const float* from, int64_t ld_from, int64_t rows, int64_t columns, float* to, int64_t ld_to);
  void (*transpose_f64)(const double* from, int64_t ld_from, int64_t rows, int64_t columns, double* to, int64_t ld_to);
  // to[j] = (x[0][j] + x[1][j]) + ..., for at least one row of n elements
  void (*add_rows)(const float* x, int64_t rows, int64_t n, float* to);
  // to[i] = w[i] - rate * g[i]; to may be w
  void (*descend)(const float* w, const float* g, float rate, float* to, int64_t n);
  int panel_f32, panel_f64;  // widest tile, in columns; packed panels have this width

  template <class T>
  void multiply(const Product<T>& p) const {
    if constexpr (sizeof(T) == 4)
      multiply_f32(p);
    else
      multiply_f64(p);
  }
  template <class T>
  void transpose(const T* from, int64_t ld_from, int64_t rows, int64_t columns, T* to, int64_t ld_to) const {
    if constexpr (sizeof(T) == 4)
      transpose_f32(from, ld_from, rows, columns, to, ld_to);
    else
      transpose_f64(from, ld_from, rows, columns, to, ld_to);
  }
  template <class T>
  int panel() const {
    return sizeof(T) == 4 ? panel_f32 : panel_f64;
  }
};

// The table for config::cpu_isa().
const Tiles& tiles();

}  // namespace lamina::kernels::cpu
