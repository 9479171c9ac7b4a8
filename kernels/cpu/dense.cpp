#include "kernels/cpu/dense.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/reduce.h"
#include "runtime/core/per_thread.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kInnerBlock = 256;  // of k: a packed panel is at most 16 KB (64 KB where vectors are wide)
constexpr int64_t kFewRows = 36;      // up to here, packing a panel costs more than it saves
constexpr int64_t kBatchBlock = 64;   // rows of a weight gradient per block: x's and dz's blocks stay in L1

constexpr int64_t kFirstCache = 4096;    // floats: half of the smallest L1
constexpr int64_t kSecondCache = 16384;  // floats: a part of L2 that others leave free

// How many rows of this length stay in L1 while the columns' panels pass by.
int64_t rows_in_cache(int64_t rows, int64_t floats) {
  constexpr int64_t least = 24;
  return rows <= least || floats == 0 ? rows : std::max(least, kFirstCache / floats / 6 * 6);
}

// Rows of a panel `stride` bytes apart share few cache sets if the stride has many factors of two; the panel is then packed.
bool crowds_cache(int64_t rows, int64_t stride, int64_t bytes) {
  constexpr int64_t way = 4096, ways = 8, line = 64;
  int64_t places = std::min(way / line, way / std::min(way, stride & -stride));
  return rows * ((bytes + line - 1) / line) > places * ways * 3 / 4;
}

// Applies only the epilogue to c.
void finish(const Tiles& tiles, Product<float> p) {
  p.accumulate = true;
  p.a = p.b = p.c;  // nothing is read from them
  tiles.multiply_f32(p);
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
  struct Memories {
    Memory of[5];
  };
  Memory& memory = PerThread<Memories>::get().of[int(use)];
  if (count > memory.held) {
    void* fresh = nullptr;
    if (posix_memalign(&fresh, 64, size_t(count) * sizeof(float)) != 0) throw std::bad_alloc();
    memory.data.reset(static_cast<float*>(fresh));
    memory.held = count;
  }
  return memory.data.get();
}

void dense(const Tiles& tiles, const float* x, const float* w, const float* b, float* y, Range rows, Range columns, int64_t k, int64_t n,
           section::Activation activation, float alpha, const float* next_w) {
  if (rows.size() <= 0 || columns.size() <= 0) return;
  if (k > kLongSum) {
    float* c = y + rows.begin * n + columns.begin;
    multiply(tiles, rows.size(), columns.size(), k, x + rows.begin * k, k, false, w + columns.begin, n, false, c, n);
    return finish(tiles, {.m = rows.size(),
                          .n = columns.size(),
                          .c = c,
                          .ldc = n,
                          .epilogue = Epilogue::activation,
                          .activation = activation,
                          .alpha = alpha,
                          .bias = b ? b + columns.begin : nullptr});
  }
  const int64_t panel = tiles.panel_f32, block = std::min(k, kInnerBlock);
  const bool pack = rows.size() > kFewRows && crowds_cache(block, n * 4, std::min(panel, columns.size()) * 4);
  const int64_t width = pack ? panel : columns.size();
  const int64_t most = pack ? rows.size() : rows_in_cache(rows.size(), k);  // a packed panel is used for all rows
  float* packed = pack ? thread_scratch(Scratch::panel, panel * block) : nullptr;
  for (int64_t i = rows.begin; i < rows.end; i += most) {
    Product<float> p{.m = std::min(most, rows.end - i),
                     .n = columns.size(),
                     .k = k,
                     .a = x + i * k,
                     .lda = k,
                     .transpose_a = false,
                     .b = w + columns.begin,
                     .ldb = n,
                     .c = y + i * n + columns.begin,
                     .ldc = n,
                     .accumulate = false,
                     .epilogue = Epilogue::activation,
                     .activation = activation,
                     .alpha = alpha,
                     .bias = b ? b + columns.begin : nullptr,
                     .ahead = next_w ? next_w + columns.begin : nullptr,
                     .ld_ahead = n};
    if (!pack && k <= 2 * kInnerBlock) {
      tiles.multiply_f32(p);
      continue;
    }
    for (int64_t j = 0; j < columns.size(); j += width) {
      Product<float> q = p;
      q.n = std::min(width, columns.size() - j);
      q.c += j;
      if (b) q.bias += j;
      if (next_w) q.ahead += j;
      for (int64_t begin = 0; begin < k; begin += block) {
        q.k = std::min(block, k - begin);
        q.a = p.a + begin;
        q.b = p.b + begin * n + j;
        q.accumulate = begin > 0;
        q.epilogue = begin + q.k == k ? Epilogue::activation : Epilogue::none;
        if (pack) {
          for (int64_t r = 0; r < q.k; ++r) std::memcpy(packed + r * panel, q.b + r * n, size_t(q.n) * sizeof(float));
          q.b = packed;
          q.ldb = panel;
        }
        tiles.multiply_f32(q);
      }
    }
  }
}

void dense_grad_input(const Tiles& tiles, const float* dz, const float* w, const float* y, float* dx, Range rows, Range columns, int64_t k,
                      int64_t n, section::Activation activation, float alpha, const float* next_w) {
  if (rows.size() <= 0 || columns.size() <= 0) return;
  const bool mask = y && activation != section::Activation::none;
  if (n > kLongSum) {
    const int64_t at = rows.begin * k + columns.begin;
    multiply(tiles, rows.size(), columns.size(), n, dz + rows.begin * n, n, false, w + columns.begin * n, n, true, dx + at, k);
    if (mask)
      finish(tiles, {.m = rows.size(),
                     .n = columns.size(),
                     .c = dx + at,
                     .ldc = k,
                     .epilogue = Epilogue::mask,
                     .activation = activation,
                     .alpha = alpha,
                     .other = y + at});
    return;
  }
  // Many rows are processed in groups that fit L1, if the transposed matrix of all columns fits L2.
  const int64_t most = rows_in_cache(rows.size(), n);
  const bool grouped = rows.size() > most && columns.size() * n <= kSecondCache && n <= kInnerBlock;
  const int64_t panel = tiles.panel_f32, width = std::max<int64_t>(panel, rows.size() == 1 ? 64 : 0), block = std::min(n, kInnerBlock);
  auto product = [&](Range part, int64_t j, int64_t count, int64_t begin, int64_t inner, const float* b) {
    const bool last = begin + inner == n;
    return Product<float>{.m = part.size(),
                          .n = count,
                          .k = inner,
                          .a = dz + part.begin * n + begin,
                          .lda = n,
                          .transpose_a = false,
                          .b = b,
                          .ldb = width,
                          .c = dx + part.begin * k + j,
                          .ldc = k,
                          .accumulate = begin > 0,
                          .epilogue = last && mask ? Epilogue::mask : Epilogue::none,
                          .activation = activation,
                          .alpha = alpha,
                          .bias = nullptr,
                          .other = mask ? y + part.begin * k + j : nullptr,
                          .ahead = next_w ? next_w + j * n + begin * count : nullptr,
                          .ld_ahead = count};  // as many lines as it has rows
  };
  if (rows.size() == 1) {
    Product<float> p = product(rows, columns.begin, columns.size(), 0, n, w + columns.begin * n);
    p.ldb = n;
    columns.begin += tiles.multiply_row_f32(p);
    if (columns.size() <= 0) return;
  }
  float* transposed = thread_scratch(Scratch::panel, grouped ? (columns.size() + panel) * block : width * block);
  auto multiply = [&](Range part, int64_t j, int64_t count, int64_t begin, int64_t inner, const float* b) {
    tiles.multiply_f32(product(part, j, count, begin, inner, b));
  };
  if (grouped) {
    for (int64_t j = columns.begin; j < columns.end; j += width)
      tiles.transpose_f32(w + j * n, n, std::min(width, columns.end - j), n, transposed + (j - columns.begin) * n, width);
    for (int64_t i = rows.begin; i < rows.end; i += most)
      for (int64_t j = columns.begin; j < columns.end; j += width)
        multiply({i, std::min(rows.end, i + most)}, j, std::min(width, columns.end - j), 0, n, transposed + (j - columns.begin) * n);
    return;
  }
  for (int64_t j = columns.begin; j < columns.end; j += width) {
    const int64_t count = std::min(width, columns.end - j);
    int64_t begin = 0;
    do {  // once even when n is 0: then dx is 0
      const int64_t inner = std::min(block, n - begin);
      tiles.transpose_f32(w + j * n + begin, n, count, inner, transposed, width);
      multiply(rows, j, count, begin, inner, transposed);
      begin += inner;
    } while (begin < n);
  }
}

void dense_grad_weight(const Tiles& tiles, const float* x, const float* dz, float* to, Range weight_rows, int64_t rows, int64_t k,
                       int64_t n, const float* w, float rate) {
  if (weight_rows.size() <= 0) return;
  Product<float> p{.m = weight_rows.size(),
                   .n = n,
                   .k = rows,
                   .a = x + weight_rows.begin,
                   .lda = k,
                   .transpose_a = true,
                   .b = dz,
                   .ldb = n,
                   .c = to,
                   .ldc = n,
                   .accumulate = false,
                   .epilogue = w ? Epilogue::descent : Epilogue::none,
                   .activation = section::Activation::none,
                   .bias = nullptr,
                   .other = w,
                   .rate = rate};
  if (rows <= kBatchBlock * 3 / 2) return tiles.multiply_f32(p);
  // Sums are kept in scratch between blocks, because w must not change before they are complete.
  const int64_t strip = std::max<int64_t>(24, kSecondCache / 2 / std::max<int64_t>(1, n) / 6 * 6);
  float* sums = thread_scratch(Scratch::sums, std::min(strip, weight_rows.size()) * n);
  for (int64_t i = 0; i < weight_rows.size(); i += strip) {
    Product<float> q = p;
    q.m = std::min(strip, weight_rows.size() - i);
    q.c = sums;
    q.epilogue = Epilogue::none;
    if (rows > kLongSum) multiply(tiles, q.m, n, rows, p.a + i, k, true, dz, n, false, sums, n);
    for (int64_t begin = 0; rows <= kLongSum && begin < rows; begin += kBatchBlock) {
      q.k = std::min(kBatchBlock, rows - begin);
      q.a = p.a + i + begin * k;
      q.b = p.b + begin * n;
      q.accumulate = begin > 0;
      tiles.multiply_f32(q);
    }
    if (w)
      tiles.descend(w + i * n, sums, rate, to + i * n, q.m * n);
    else
      std::memcpy(to + i * n, sums, size_t(q.m * n) * sizeof(float));
  }
}

void dense_row_backward(const Tiles& tiles, const float* x, const float* dz, float* w, const float* y, float* dx, int64_t k, int64_t n,
                        section::Activation activation, float alpha, float rate) {
  const bool mask = y && activation != section::Activation::none;
  const Product<float> p{.m = 1,
                         .n = k,
                         .k = n,
                         .a = dz,
                         .lda = n,
                         .b = w,
                         .ldb = n,
                         .c = dx,
                         .ldc = k,
                         .epilogue = mask ? Epilogue::mask : Epilogue::none,
                         .activation = activation,
                         .alpha = alpha,
                         .other = y};
  const Range rest{n > kLongSum ? 0 : tiles.multiply_row_descend_f32(p, x, rate, w), k};
  dense_grad_input(tiles, dz, w, y, dx, {0, 1}, rest, k, n, activation, alpha);
  dense_grad_weight(tiles, x, dz, w + rest.begin * n, rest, 1, k, n, w + rest.begin * n, rate);
}

namespace {

// Adds blocks' sums pairwise: after block b, as many levels are joined as b has trailing ones. block(b, to) gives one of n elements.
template <class Block>
void add_pairwise(int64_t blocks, int64_t n, float* to, Block&& block) {
  constexpr int most_levels = 40;
  float* levels = thread_scratch(Scratch::block, (most_levels + 1) * n);
  float* sum = levels + most_levels * n;
  uint64_t held = 0;
  auto join = [&](int level) {
    for (int64_t j = 0; j < n; ++j) sum[j] = levels[level * n + j] + sum[j];
  };
  for (int64_t b = 0; b < blocks; ++b) {
    block(b, sum);
    int level = 0;
    for (uint64_t h = held++; h & 1; h >>= 1) join(level++);
    std::memcpy(levels + level * n, sum, size_t(n) * sizeof(float));
  }
  int level = 0;
  while (!(held >> level & 1)) ++level;
  std::memcpy(sum, levels + level * n, size_t(n) * sizeof(float));
  for (++level; held >> level; ++level)
    if (held >> level & 1) join(level);
  std::memcpy(to, sum, size_t(n) * sizeof(float));
}

}  // namespace

void dense_grad_bias(const Tiles& tiles, const float* dz, float* db, int64_t rows, int64_t n) {
  if (rows == 0 || n == 1) return reduce_matrix(section::Reduction::sum, section::Broadcast::row, dz, db, rows, n);  // one column is a row
  if (rows <= kBiasBlock) return tiles.add_rows(dz, rows, n, db);
  add_pairwise((rows + kBiasBlock - 1) / kBiasBlock, n, db,
               [&](int64_t b, float* to) { tiles.add_rows(dz + b * kBiasBlock * n, std::min(kBiasBlock, rows - b * kBiasBlock), n, to); });
}

void add_dense_gradients(const Tiles& tiles, const float* x, const float* dz, Range rows, int64_t k, int64_t n, float* dw, float* blocks) {
  for (int64_t begin = rows.begin; dw && begin < rows.end; begin += kBatchBlock)
    tiles.multiply_f32({.m = k,
                        .n = n,
                        .k = std::min(kBatchBlock, rows.end - begin),
                        .a = x + begin * k,
                        .lda = k,
                        .transpose_a = true,
                        .b = dz + begin * n,
                        .ldb = n,
                        .c = dw,
                        .ldc = n,
                        .accumulate = begin > 0});
  if (blocks && n == 1) std::copy(dz + rows.begin, dz + rows.end, blocks + rows.begin);
  for (int64_t begin = rows.begin; blocks && n > 1 && begin < rows.end; begin += kBiasBlock)
    tiles.add_rows(dz + begin * n, std::min(kBiasBlock, rows.end - begin), n, blocks + begin / kBiasBlock * n);
}

void add_bias_blocks(const Tiles& tiles, const float* blocks, int64_t rows, int64_t n, float* db) {
  if (n == 1) return dense_grad_bias(tiles, blocks, db, rows, n);
  add_pairwise((rows + kBiasBlock - 1) / kBiasBlock, n, db,
               [&](int64_t b, float* to) { std::memcpy(to, blocks + b * n, size_t(n) * sizeof(float)); });
}

}  // namespace lamina::kernels::cpu
