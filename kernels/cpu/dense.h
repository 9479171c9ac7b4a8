// Dense layers on part of their rows or columns, on the calling thread. f32, contiguous. section/table.h defines the computations.
#pragma once
#include "kernels/cpu/tiles.h"

namespace lamina::kernels::cpu {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// y[rows, columns] = act(x w + b); b may be null. next_w: weights, as wide as w, to prefetch for the caller; may be null.
void dense(const Tiles& tiles, const float* x, const float* w, const float* b, float* y, Range rows, Range columns, int64_t k, int64_t n,
           section::Activation activation, float alpha = 0, const float* next_w = nullptr);

// dx[rows, columns] = (dz w^T) * act'(y). y is act's result (or its input: section::of_input) and may be null. Columns are of k. dx must
// not be y. next_w: weights of at least as many elements to prefetch for the caller; may be null.
void dense_grad_input(const Tiles& tiles, const float* dz, const float* w, const float* y, float* dx, Range rows, Range columns, int64_t k,
                      int64_t n, section::Activation activation, float alpha = 0, const float* next_w = nullptr);

// dw[weight_rows, :] = x^T dz over all `rows`; to[0] is row weight_rows.begin. With `w` (which starts at that row): to = w - rate * dw.
void dense_grad_weight(const Tiles& tiles, const float* x, const float* dz, float* to, Range weight_rows, int64_t rows, int64_t k,
                       int64_t n, const float* w, float rate);

// Both for one row: dx = (dz w^T) * act'(y), then w = w - rate * x^T dz. w is read once.
void dense_row_backward(const Tiles& tiles, const float* x, const float* dz, float* w, const float* y, float* dx, int64_t k, int64_t n,
                        section::Activation activation, float alpha, float rate);

// db = the sum of dz's rows, with the same bits as reduce (kernels/reduce.h).
void dense_grad_bias(const Tiles& tiles, const float* dz, float* db, int64_t rows, int64_t n);

// The same part by part, in the order of rows: adds these rows' x^T dz to dw, which the first ones set, and sets the rows' blocks of dz's
// column sums, [rows / kBiasBlock, n], or dz itself if n is 1. Parts but the last are whole blocks. Either may be null. At most kLongSum
// rows.
void add_dense_gradients(const Tiles& tiles, const float* x, const float* dz, Range rows, int64_t k, int64_t n, float* dw, float* blocks);
void add_bias_blocks(const Tiles& tiles, const float* blocks, int64_t rows, int64_t n, float* db);  // db from all rows' blocks
inline constexpr int64_t kBiasBlock = 32;

// c[m,n] = op(a) op(b) on the calling thread, with the same bits as matmul (kernels/section/table.h).
template <class T>
void multiply(const Tiles& tiles, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, bool transpose_a, const T* b, int64_t ldb,
              bool transpose_b, T* c, int64_t ldc);

// Scratch memory of the calling thread for `count` floats, 64-byte aligned. Valid until the next call with the same use.
enum class Scratch { panel, strip, block, span, sums };
float* thread_scratch(Scratch use, int64_t count);

}  // namespace lamina::kernels::cpu
