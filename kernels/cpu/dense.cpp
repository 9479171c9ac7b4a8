#include "kernels/cpu/dense.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kInnerBlock = 256;  // of k: a packed panel is at most 16 KB (64 KB where vectors are wide)
constexpr int64_t kBatchBlock = 64;   // of a weight gradient's rows: x's and dz's blocks stay in the first cache

// Rows of a panel that are `stride` bytes apart share few cache sets when the stride has many factors of two: then it is copied.
bool crowds_cache(int64_t rows, int64_t stride, int64_t bytes) {
  constexpr int64_t way = 4096, ways = 8, line = 64;
  int64_t places = std::min(way / line, way / std::gcd(way, stride));
  return rows * ((bytes + line - 1) / line) > places * ways * 3 / 4;
}

}  // namespace

float* thread_scratch(Scratch use, int64_t count) {
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  struct Memory {
    std::unique_ptr<float, Free> data;
    int64_t held = 0;
  };
  thread_local Memory memories[3];
  Memory& memory = memories[int(use)];
  if (count > memory.held) {
    void* fresh = nullptr;
    if (posix_memalign(&fresh, 64, size_t(count) * sizeof(float)) != 0) throw std::bad_alloc();
    memory.data.reset(static_cast<float*>(fresh));
    memory.held = count;
  }
  return memory.data.get();
}

void dense(const Tiles& tiles, const float* x, const float* w, const float* b, float* y, Range rows, Range columns, int64_t k, int64_t n, section::Activation activation) {
  if (rows.size() <= 0 || columns.size() <= 0) return;
  Product<float> p{.m = rows.size(), .n = columns.size(), .k = k, .a = x + rows.begin * k, .lda = k, .transpose_a = false, .b = w + columns.begin, .ldb = n,
                   .c = y + rows.begin * n + columns.begin, .ldc = n, .accumulate = false, .epilogue = Epilogue::activation, .activation = activation,
                   .bias = b ? b + columns.begin : nullptr};
  const int64_t panel = tiles.panel_f32, block = std::min(k, kInnerBlock);
  const bool pack = rows.size() > 12 && crowds_cache(block, n * 4, std::min(panel, columns.size()) * 4);
  if (!pack && k <= 2 * kInnerBlock) return tiles.multiply_f32(p);
  float* packed = pack ? thread_scratch(Scratch::panel, panel * block) : nullptr;
  const int64_t width = pack ? panel : columns.size();
  for (int64_t j = 0; j < columns.size(); j += width) {
    Product<float> q = p;
    q.n = std::min(width, columns.size() - j);
    q.c += j;
    if (b) q.bias += j;
    for (int64_t begin = 0; begin < k; begin += block) {
      q.k = std::min(block, k - begin);
      q.a = p.a + begin;
      q.b = p.b + begin * n + j;
      q.accumulate = begin > 0;
      q.epilogue = begin + q.k == k ? Epilogue::activation : Epilogue::none;
      if (pack) {
        for (int64_t i = 0; i < q.k; ++i) std::memcpy(packed + i * panel, q.b + i * n, size_t(q.n) * sizeof(float));
        q.b = packed;
        q.ldb = panel;
      }
      tiles.multiply_f32(q);
    }
  }
}

void dense_grad_input(const Tiles& tiles, const float* dz, const float* w, const float* y, float* dx, Range rows, Range columns, int64_t k, int64_t n, section::Activation activation) {
  if (rows.size() <= 0 || columns.size() <= 0) return;
  const int64_t width = std::max<int64_t>(tiles.panel_f32, rows.size() == 1 ? 64 : 0), block = std::min(n, kInnerBlock);
  float* transposed = thread_scratch(Scratch::panel, width * block);
  const bool mask = y && activation != section::Activation::none;
  for (int64_t j = columns.begin; j < columns.end; j += width) {
    const int64_t count = std::min(width, columns.end - j);
    int64_t begin = 0;
    do {  // once even when n is 0: then dx is 0
      const int64_t inner = std::min(block, n - begin);
      tiles.transpose_f32(w + j * n + begin, n, count, inner, transposed, width);
      const bool last = begin + inner == n;
      tiles.multiply_f32({.m = rows.size(), .n = count, .k = inner, .a = dz + rows.begin * n + begin, .lda = n, .transpose_a = false, .b = transposed, .ldb = width,
                          .c = dx + rows.begin * k + j, .ldc = k, .accumulate = begin > 0, .epilogue = last && mask ? Epilogue::mask : Epilogue::none,
                          .activation = activation, .bias = nullptr, .other = mask ? y + rows.begin * k + j : nullptr});
      begin += inner;
    } while (begin < n);
  }
}

void dense_grad_weight(const Tiles& tiles, const float* x, const float* dz, float* to, Range weight_rows, int64_t rows, int64_t k, int64_t n, const float* w, float rate) {
  if (weight_rows.size() <= 0) return;
  Product<float> p{.m = weight_rows.size(), .n = n, .k = rows, .a = x + weight_rows.begin, .lda = k, .transpose_a = true, .b = dz, .ldb = n, .c = to, .ldc = n,
                   .accumulate = false, .epilogue = w ? Epilogue::descent : Epilogue::none, .activation = section::Activation::none, .bias = nullptr, .other = w, .rate = rate};
  if (rows <= kBatchBlock * 3 / 2) return tiles.multiply_f32(p);
  // Sums go on in a scratch strip from block to block, since w must not change before they are complete.
  constexpr int64_t strip = 24;
  float* sums = thread_scratch(Scratch::panel, strip * n);
  for (int64_t i = 0; i < weight_rows.size(); i += strip) {
    Product<float> q = p;
    q.m = std::min(strip, weight_rows.size() - i);
    q.c = sums;
    q.ldc = n;
    q.epilogue = Epilogue::none;
    for (int64_t begin = 0; begin < rows; begin += kBatchBlock) {
      q.k = std::min(kBatchBlock, rows - begin);
      q.a = p.a + i + begin * k;
      q.b = p.b + begin * n;
      q.accumulate = begin > 0;
      tiles.multiply_f32(q);
    }
    if (w) {
      for (int64_t e = 0; e < q.m * n; ++e) to[i * n + e] = w[i * n + e] - rate * sums[e];
    } else {
      std::memcpy(to + i * n, sums, size_t(q.m * n) * sizeof(float));
    }
  }
}

}  // namespace lamina::kernels::cpu
