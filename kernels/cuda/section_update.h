// dense_update: dw = x^T dz and db, followed by the optimizer's arithmetic, without writing dw to memory. An element of dw sums over the
// rows of the batch in order; db as in kernels/reduce.h.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_code.h"
#include "kernels/cuda/section_reduce.h"
#include "kernels/cuda/section_windows.h"

namespace lamina::kernels::cuda::resident {

// A tile of weights has 64 columns; a thread has two neighbouring ones, in `own` rows of its warp. Blocks that have a whole layer, such as
// those of an ensemble, take tiles of 64 rows.
constexpr int kTileColumns = section::kUpdateColumns, kWarps = kThreads / int(kWarp), kFewOwn = section::kUpdateRows / kWarps,
              kManyOwn = 2 * kFewOwn;
static_assert(kTileColumns == 2 * kWarp && kFewOwn == kElements);
constexpr int kBatchRows = 32;  // rows in shared memory at once: those of x, then those of dz

// Read again behind each barrier, shared memory would cost more.
struct Operands {
  const float *x, *dz;
  const float *w = nullptr, *rate = nullptr;  // of w - rate * dw, if it is that
  float* to = nullptr;                        // for that, or for dw itself
  int batch, k, n;
};

// A thread's part of kBatchRows rows of x and dz, on its way from global to shared memory. whole: the tile lies in the matrix, and all that
// is read by fours or twos is aligned.
template <int own, bool whole>
struct BatchRows {
  static constexpr int kTileRows = own * kWarps, kQuadsOfX = kTileRows / 4, kQuadsOfZ = kTileColumns / 4;
  static constexpr int kTimesOfX = kBatchRows * kQuadsOfX / kThreads, kTimesOfZ = kBatchRows * kQuadsOfZ / kThreads;
  Four x[kTimesOfX], z[kTimesOfZ];

  // Four neighbours of a row, zero beyond the last of them.
  LAMINA_DEVICE static Four four_of(const float* row, int first, int end) {
    if constexpr (whole) {
      return four_shared_between_blocks(row + first);
    } else {
      Four f;
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) f.v[i] = first + i < end ? load_shared_between_blocks(row + first + i) : 0;
      return f;
    }
  }
  // Rows from `first` of the batch; of x the columns rows.begin to rows.end, of dz those from `column`.
  LAMINA_DEVICE void load(const Operands& o, int first, Rows rows, int column) {
    const unsigned t = thread_index();
    LAMINA_UNROLL
    for (int i = 0; i < kTimesOfX; ++i) {
      const int row = first + int(t / kQuadsOfX) + i * (kThreads / kQuadsOfX);
      x[i] = row < o.batch ? four_of(o.x + (long long)row * o.k, rows.begin + int(t % kQuadsOfX) * 4, rows.end) : Four{};
    }
    LAMINA_UNROLL
    for (int i = 0; i < kTimesOfZ; ++i) {
      const int row = first + int(t / kQuadsOfZ) + i * (kThreads / kQuadsOfZ);
      z[i] = row < o.batch ? four_of(o.dz + (long long)row * o.n, column + int(t % kQuadsOfZ) * 4, o.n) : Four{};
    }
  }
  LAMINA_DEVICE void store(float* memory) const {
    const unsigned t = thread_index();
    LAMINA_UNROLL
    for (int i = 0; i < kTimesOfX; ++i) put_four(memory + (t + i * kThreads) * 4, x[i]);
    LAMINA_UNROLL
    for (int i = 0; i < kTimesOfZ; ++i) put_four(memory + kBatchRows * kTileRows + (t + i * kThreads) * 4, z[i]);
  }
};

// dw of the thread's part of a tile, over all rows of the batch; batch: the first rows. levels: in shared memory, for db of the tile's
// columns, by the first warp; null: without.
template <int own, bool whole>
LAMINA_DEVICE Two sum_over_batch(const Operands& o, BatchRows<own, whole>& batch, float* memory, Rows rows, int column, Two (&sums)[own],
                                 float* levels) {
  constexpr int kTileRows = BatchRows<own, whole>::kTileRows, kTogether = 4, kAhead = own > kFewOwn ? 2 : 4;  // rows, read so many before
  const float* own_x = memory + warp_index() * own;
  const float* own_z = memory + kBatchRows * kTileRows + 2 * lane();
  const bool with_bias = levels && warp_index() == 0;
  const auto level = [&](int l, int c) -> float& { return levels[l * kTileColumns + 2 * int(lane()) + c]; };
  unsigned blocks = 0;
  for (int first = 0; first < o.batch; first += kBatchRows, ++blocks) {
    sync_block();  // all threads are done with that memory
    batch.store(memory);
    sync_block();
    const int count = least(kBatchRows, o.batch - first);
    if (first + count < o.batch) batch.load(o, first + count, rows, column);
    Four a[kAhead][own / 4];
    Two z[kAhead];
    const auto read = [&](int r, int to) {
      LAMINA_UNROLL
      for (int i = 0; i < own / 4; ++i) a[to][i] = same_four_in_order(own_x + r * kTileRows + 4 * i);
      z[to] = two_in_order(own_z + r * kTileColumns);
    };
    LAMINA_UNROLL
    for (int r = 0; r < kAhead; ++r) read(r, r);
    const auto add = [&](int i) {
      LAMINA_UNROLL
      for (int q = 0; q < own; ++q) {
        LAMINA_UNROLL
        for (int c = 0; c < 2; ++c) sums[q].v[c] = fma(a[i][q / 4].v[q % 4], z[i].v[c], sums[q].v[c]);
      }
    };
    int r = 0;
    for (; r + kTogether < count; r += kTogether) {
      LAMINA_UNROLL
      for (int i = 0; i < kTogether; ++i) add(i % kAhead), read(r + i + kAhead, i % kAhead);
    }
    const auto end = [&](int rows) {
      LAMINA_UNROLL
      for (int i = 0; i < kTogether; ++i) {
        if (i >= rows) break;
        add(i % kAhead);
        if (i + kAhead < kTogether) read(r + i + kAhead, i % kAhead);
      }
    };
    if (r + kTogether == count)
      end(kTogether);
    else [[unlikely]]
      end(count - r);
    if (with_bias) {
      Two db{{-0.0f, -0.0f}};  // -0 + x is x
      for (int i = 0; i < count; ++i) {
        const Two row = two_in_order(own_z + i * kTileColumns);
        db.v[0] += row.v[0], db.v[1] += row.v[1];
      }
      LAMINA_UNROLL
      for (int c = 0; c < 2; ++c) push(section::Reduction::sum, blocks, db.v[c], [&](int l) -> float& { return level(l, c); });
    }
  }
  Two db{};
  if (with_bias) {
    LAMINA_UNROLL
    for (int c = 0; c < 2; ++c) db.v[c] = total(section::Reduction::sum, blocks, [&](int l) -> float& { return level(l, c); });
  }
  return db;
}

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

// `count` neighbours of the bias from `column` on, whose gradient is db. All threads of the block must call it. of_ranks: of the kernel for
// sums over ranks, where gradients may be results.
template <bool of_ranks>
LAMINA_DEVICE void update_bias(const Block& b, int column, int count, const Two& db) {
  const BlockStep& s = b.step();
  const int first_out = s.code < 0 ? 0 : b.code(s.code)[3];  // behind the weights' results
  if (s.descent_w2 >= 0) {
    const int extras = 1 + s.extras;  // before the bias's own extras
    const float rate = load_shared_between_blocks(b.in<const float>(s, extras + s.descent_rate2));
    const float* w = b.in<const float>(s, extras + s.descent_w2);
    float* to = b.out<float>(s, first_out);
    LAMINA_UNROLL
    for (int c = 0; c < 2; ++c)
      if (c < count) to[column + c] = load_shared_between_blocks(w + column + c) - rate * db.v[c];
  } else if (of_ranks && s.known2 == section::kStored) {
    float* to = s.announces2 >= 0 ? own_root(b.launch(), s.announces2, b.model) : b.out<float>(s, first_out);
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
  BatchRows<own, whole> batch;
  batch.load(o, 0, rows, column0);
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
  const Two db = sum_over_batch(o, batch, b.ring(), rows, column0, sums, with_bias ? b.scratch() : nullptr);
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
  if (with_bias) update_bias<of_ranks>(b, column, warp_index() == 0 ? columns : 0, db);
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
  const Record& record = Block::record(current);
  const auto operand = [&](UpdateOperand i) { return record.update[i].of<float>(model); };
  Operands o{operand(kOfX),  operand(kOfDz),   operand(kOfW), operand(kOfRate),
             operand(kOfTo), record.step.rows, record.step.k, record.step.n};
  if constexpr (of_ranks)
    if (const BlockStep& s = record.step; s.known == section::kStored && s.announces >= 0) o.to = own_root(b.launch(), s.announces, model);
  const Part part = part_of<of_ranks>(record.step);
  const auto of = [](const void* p) { return unsigned(reinterpret_cast<size_t>(p)); };
  const bool fits_fours = ((o.k | o.n | part.rows.begin) & 3) == 0 && ((of(o.x) | of(o.dz)) & 15) == 0 && ((of(o.w) | of(o.to)) & 7) == 0;
  const bool bias_with_tiles = part.has_bias && !part.rows.empty() && o.n > 1 && o.batch > 0;
  for (int column0 = part.columns.begin; column0 < part.columns.end; column0 += kTileColumns) {
    for (int begin = part.rows.begin; begin < part.rows.end;) {
      const int left = part.rows.end - begin;
      const bool with_bias = bias_with_tiles && begin == part.rows.begin, whole = fits_fours && column0 + kTileColumns <= o.n;
      const int many = kManyOwn * kWarps, few = kFewOwn * kWarps;
      if (whole && left >= many)
        update_tile<kManyOwn, true, of_ranks>(b, o, {begin, begin + many}, column0, with_bias), begin += many;
      else if (whole && left >= few)
        update_tile<kFewOwn, true, of_ranks>(b, o, {begin, begin + few}, column0, with_bias), begin += few;
      else
        update_edge<of_ranks>(at, current, model, o, {begin, begin + least(few, left)}, column0, with_bias), begin += few;
    }
  }
  if (!part.has_bias || bias_with_tiles || part.columns.begin > 0) return;
  for (int first = 0; first < o.n; first += kThreads) {
    const int column = first + int(thread_index());
    const bool active = column < o.n;
    sync_block();  // the scratch memory serves sums and programs
    const float db = column_result(section::Reduction::sum, o.dz, o.batch, o.n, column, active, b.scratch());
    update_bias<of_ranks>(b, column, active, Two{{db, 0}});
  }
}

}  // namespace lamina::kernels::cuda::resident
