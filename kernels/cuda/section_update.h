// dense_update: dw = x^T dz and db, followed by the optimizer's arithmetic, without writing dw to memory. An element of dw sums over the
// rows of the batch in order; db as in kernels/reduce.h.
#pragma once
#include "kernels/cuda/section_batch.h"
#include "kernels/cuda/section_code.h"
#include "kernels/cuda/section_windows.h"

namespace lamina::kernels::cuda::resident {

static_assert(kFewOwn == kElements);  // of a program

// Two neighbours of a row of weights: how many of them are there is known if the tile is whole.
template <bool whole>
LAMINA_DEVICE Two two_of(const float* p, int count) {
  if constexpr (whole)
    return two_shared_between_blocks(p);
  else
    return {{count > 0 ? load_shared_between_blocks(p) : 0, count > 1 ? load_shared_between_blocks(p + 1) : 0}};
}
template <bool whole>
LAMINA_DEVICE void put_two_of(float* p, const Two& two, int count) {
  if constexpr (whole) {
    put_two(p, two);
  } else {
    if (count > 0) p[0] = two.v[0];
    if (count > 1) p[1] = two.v[1];
  }
}

// w - rate * db of `count` neighbours of the bias from `column` on. Its loads begin long before db is there.
struct BiasDescent {
  float* to = nullptr;
  Two w{};
  float rate = 0;
  LAMINA_DEVICE void load(const Block& b, const BlockStep& s, int column, int count) {
    const int extras = 2 + s.extras, last = s.ins + s.outs - 1;  // the bias's own operands; its result is behind the weights'
    const float *one = b.operand<const float>(extras), *other = b.operand<const float>(extras + 1);
    const bool w_first = s.descent2 == 0;
    to = b.operand<float>(last) + column;
    w = two_of<false>((w_first ? one : other) + column, count), rate = load_shared_between_blocks(w_first ? other : one);
  }
  LAMINA_DEVICE void store(int count, const Two& db) const {
    put_two_of<false>(to, Two{{w.v[0] - rate * db.v[0], w.v[1] - rate * db.v[1]}}, count);
  }
};
// Of a bias whose gradient is db. All threads of the block must call it. of_ranks: of the kernel for sums over ranks, where gradients may
// be results.
template <bool of_ranks>
LAMINA_DEVICE void update_bias(const Block& b, int column, int count, const Two& db) {
  const BlockStep& s = b.step();
  const int first_out = s.code < 0 ? 0 : b.code(s.code)[3];  // behind the weights' results
  if (s.descent2 >= 0) {
    if (count <= 0) return;
    BiasDescent bias;
    bias.load(b, s, column, count), bias.store(count, db);
  } else if (of_ranks && s.known2 == section::kStored) {
    float* to = s.announces2 >= 0 ? own_root(b.launch(), s.announces2, b.model) : b.data<float>(s.first_out + first_out);
    put_two_of<false>(to + column, db, count);
  } else {
    sync_block();  // memory becomes registers
    const Code code(b, s.code2, s.first_in + 2 + s.extras, s.first_out + first_out, true, s.n, s.known2);
    code.bring();
    code.elements(column, 1, count, Four{{db.v[0], db.v[1], 0, 0}});
  }
}

// with_bias: the tile's columns of the bias too.
template <int own, bool whole, bool of_ranks>
LAMINA_DEVICE void update_tile(const Block& b, const Operands& o, Rows rows, int column0, bool with_bias) {
  BatchRows<own, whole>::ask(b.ring(), o, 0, rows, column0);  // no thread uses that memory any more
  const int row = rows.begin + int(warp_index()) * own, column = column0 + 2 * int(lane());
  const int columns = whole ? 2 : least(2, o.n - column);
  const long long at = (long long)row * o.n + column;
  const auto there = [&](int q) { return whole || row + q < rows.end ? columns : 0; };
  Two sums[own] = {}, values[own] = {};
  float rate = 0;
  if (o.w) {
    LAMINA_UNROLL
    for (int q = 0; q < own; ++q) values[q] = two_of<whole>(o.w + at + q * o.n, there(q));
    rate = load_shared_between_blocks(o.rate);
  }
  const bool of_bias = with_bias && warp_index() == 0, bias_descends = b.step().descent2 >= 0;
  BiasDescent bias;
  if (of_bias && bias_descends) bias.load(b, b.step(), column, columns);
  const Two db = sum_over_batch<own, whole>(o, b.ring(), rows, column0, sums, of_bias, b.scratch());
  if (o.w) {
    LAMINA_UNROLL
    for (int q = 0; q < own; ++q) {
      LAMINA_UNROLL
      for (int c = 0; c < 2; ++c) values[q].v[c] -= rate * sums[q].v[c];
      put_two_of<whole>(o.to + at + q * o.n, values[q], there(q));
    }
  } else if (of_ranks && o.to) {
    LAMINA_UNROLL
    for (int q = 0; q < own; ++q) put_two_of<whole>(o.to + at + q * o.n, sums[q], there(q));
  } else {
    sync_block();  // that memory becomes registers
    const BlockStep& s = b.step();
    const Code code(b, s.code, s.first_in + 2, s.first_out, true, o.n, s.known);
    code.bring();
    LAMINA_UNROLL
    for (int q = 0; q < own; q += kElements) {
      LAMINA_UNROLL
      for (int c = 0; c < 2; ++c)
        code.elements(at + (long long)q * o.n + c, o.n, c < columns ? least(kElements, rows.end - row - q) : 0,
                      Four{{sums[q].v[c], sums[q + 1].v[c], sums[q + 2].v[c], sums[q + 3].v[c]}});
    }
  }
  if (bias_descends) {
    if (of_bias) bias.store(columns, db);
  } else if (with_bias) {
    update_bias<of_ranks>(b, column, of_bias ? columns : 0, db);
  }
}

// The leaf whose rows this block shares with its neighbours; -1: it has whole leaves, or none. Only a kernel of ranks has such.
LAMINA_DEVICE int leaf_of(const BlockStep& s) {
  return s.partition == Partition::models && s.neighbours > 1 ? (int(block_index()) - s.first_block) / s.neighbours : -1;
}

// What this block has of an update: rows and columns of the weights, and whether the bias is with them.
struct Part {
  Rows rows, columns;
  bool has_bias;
};
template <bool of_ranks>
LAMINA_DEVICE Part part_of(const BlockStep& s) {
  Part p{{0, s.k}, {0, s.n}, s.has_bias != 0};
  const int number = int(block_index()) - s.first_block;
  if (s.partition != Partition::models) {
    int part = number;
    if (s.neighbours > 1) [[unlikely]]
      part /= s.neighbours, p.columns = section::update_columns(s, number - part * s.neighbours);
    const int parts = section::parts_of(s);
    p.rows = section::share(s.k, s.each, part, parts), p.has_bias = p.has_bias && part == parts - 1;
  } else if (of_ranks && leaf_of(s) >= 0) {
    const int neighbour = number - leaf_of(s) * s.neighbours;
    p.rows = section::share(s.k, neighbour, s.neighbours), p.has_bias = p.has_bias && neighbour == s.neighbours - 1;
  }
  if (s.code < 0) p.rows = {0, 0};
  return p;
}

// A function of its own: the compiler would find the addresses of its many loads before the loop over tiles.
template <bool of_ranks>
LAMINA_CALLED void update_edge(char* const* at, int current, int model, Operands o, Rows rows, int column, bool with_bias) {
  Block b(at, nullptr, 0);
  b.current = current, b.model = model;
  update_tile<kFewOwn, false, of_ranks>(b, o, rows, column, with_bias);
}

// A function of its own: inlined, its tiles would leave the rest of the kernel too few registers. By values, since what it is given by
// reference would be read by generic loads. current: of the block's records.
template <bool of_ranks>
LAMINA_CALLED void update(char* const* at, int current, int model) {
  Block b(at, nullptr, 0);
  b.current = current, b.model = model;
  const BlockStep& s = b.step();
  Operands o{.x = b.operand<const float>(0), .dz = b.operand<const float>(1), .batch = s.rows, .k = s.k, .n = s.n};
  if (s.descent >= 0) {
    const float *one = b.operand<const float>(2), *other = b.operand<const float>(3);
    o.w = s.descent == 0 ? one : other, o.rate = s.descent == 0 ? other : one, o.to = b.operand<float>(s.ins);
  } else if (of_ranks && s.known == section::kStored) {
    o.to = s.announces >= 0 ? own_root(b.launch(), s.announces, model) : b.data<float>(s.first_out);
  }
  const Part part = part_of<of_ranks>(s);
  const auto of = [](const void* p) { return unsigned(reinterpret_cast<size_t>(p)); };
  const bool fits_fours = ((o.k | o.n | part.rows.begin) & 3) == 0 && ((of(o.x) | of(o.dz)) & 15) == 0 && ((of(o.w) | of(o.to)) & 7) == 0;
  const bool bias_with_tiles = part.has_bias && !part.rows.empty() && o.n > 1 && o.batch > 0;
  constexpr int kMany = kManyOwn * kWarps, kFew = kFewOwn * kWarps;
  if (!part.rows.empty() && !part.columns.empty()) {
    for (int column0 = part.columns.begin, begin = part.rows.begin;;) {
      const int left = part.rows.end - begin;
      const bool with_bias = bias_with_tiles && begin == part.rows.begin, whole = fits_fours && column0 + kTileColumns <= o.n;
      if (whole && left >= kMany)
        update_tile<kManyOwn, true, of_ranks>(b, o, {begin, begin + kMany}, column0, with_bias), begin += kMany;
      else if (whole && left >= kFew)
        update_tile<kFewOwn, true, of_ranks>(b, o, {begin, begin + kFew}, column0, with_bias), begin += kFew;
      else
        update_edge<of_ranks>(at, current, model, o, {begin, begin + least(kFew, left)}, column0, with_bias), begin += kFew;
      if (begin >= part.rows.end) {
        begin = part.rows.begin, column0 += kTileColumns;
        if (column0 >= part.columns.end) break;
      }
      sync_block();  // all threads are done with the tile's memory
    }
  }
  if (!part.has_bias || bias_with_tiles || part.columns.begin > 0) return;
  for (int first = 0; first < o.n; first += kThreads) {
    const int column = first + int(thread_index());
    const bool active = column < o.n;
    sync_block();  // the scratch memory serves sums and programs
    const float db = column_result(section::Reduction::sum, o.dz, o.batch, o.n, column, active, b.scratch());
    update_bias<of_ranks>(b, column, active ? 1 : 0, Two{{db, 0}});
  }
}

}  // namespace lamina::kernels::cuda::resident
