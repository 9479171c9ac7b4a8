// A chain (section_chain.h) of many rows: of a block that has more than kFewRows, as for a model of an ensemble. There the number of
// products is what takes the time. So all computing warps multiply the same piece, on up to 20 rows: a thread has two columns of R rows,
// and a number from shared memory serves several products. The rows lie where the ring has its last places.
#pragma once
#include "kernels/cuda/section_store.h"

namespace lamina::kernels::cuda::resident {

// A computing thread's part of a piece: two columns, neighbours forward and 16 apart backward, of each kRowGroups-th row.
template <bool gradient>
struct OwnPart {
  static constexpr int kApart = gradient ? int(kWarp) / 2 : 1;
  int column, row;
  LAMINA_DEVICE explicit OwnPart(int thread) {
    const int warp = thread / int(kWarp), pair = thread % int(kWarp) / 2;
    column = warp % 2 * int(kWarp) + (gradient ? pair : 2 * pair), row = warp / 2 * 2 + thread % 2;
  }
};

// Adds a piece's products to the sums, in the order of their terms. w: the thread's first column; x: its first row.
template <int R, bool gradient>
LAMINA_DEVICE void multiply_piece(const float* w, const float* x, int stride, Two (&sums)[R]) {
  constexpr int kQuads = kPiece / 4, kAhead = R > 3 ? 1 : R > 1 ? 2 : 3, kApart = OwnPart<gradient>::kApart;
  Four v[kAhead + 1][R];
  Two weights[kAhead + 1][4];
  const auto load = [&](int q) {
    const int to = q % (kAhead + 1);
    if constexpr (gradient) {
      LAMINA_UNROLL
      for (int c = 0; c < 2; ++c) {
        const Four row = four_in_order(w + c * kApart * kLeading + 4 * q);
        LAMINA_UNROLL
        for (int i = 0; i < 4; ++i) weights[to][i].v[c] = row.v[i];
      }
    } else {
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) weights[to][i] = two_in_order(w + (4 * q + i) * kLeading);
    }
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) v[to][r] = same_four_in_order(x + r * stride + 4 * q);
  };
  LAMINA_UNROLL
  for (int q = 0; q < kAhead; ++q) load(q);
  LAMINA_UNROLL
  for (int q = 0; q < kQuads; ++q) {
    if (q + kAhead < kQuads) load(q + kAhead);
    const int from = q % (kAhead + 1);
    LAMINA_UNROLL
    for (int i = 0; i < 4; ++i) {
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) {
        LAMINA_UNROLL
        for (int c = 0; c < 2; ++c) sums[r].v[c] = fma(v[from][r].v[i], weights[from][i].v[c], sums[r].v[c]);
      }
    }
  }
}

// Of element e of an array in registers.
template <int count>
LAMINA_DEVICE float picked(const Two (&all)[count], int e) {
  float f = 0;
  LAMINA_UNROLL
  for (int i = 0; i < 2 * count; ++i) f = e == i ? all[i / 2].v[i % 2] : f;
  return f;
}

// A function of its own, as compute(). By values, so that it is known what lies in shared memory.
template <int R, bool gradient>
LAMINA_CALLED void compute_many(int chain, int links, int places, int thread) {
  constexpr int kApart = OwnPart<gradient>::kApart;
  const ChainMemory memory(chain, links);
  const OwnPart<gradient> own(thread);
  Two sums[R] = {};
  int place = 0;
  unsigned there = 0;  // pieces
  meet();
  for (unsigned piece = 0;; ++piece) {
    if (there <= piece) there = wait_for_piece(memory, piece);
    const float* const weights = memory.place(place);
    const ManyTask task = memory.task(place);
    place = place + 1 == places ? 0 : place + 1;
    if (task.flags & Task::ends_pair) return;
    const float* const x = memory.shared + task.x + own.row * task.leading;
    const bool is_column[2] = {own.column < task.columns, own.column + kApart < task.columns};
    const long long element = (long long)own.row * task.outer + own.column;  // in the device's memory, from the piece's first one
    Two sides[R] = {};                                                       // of a bias only the first
    const auto read_sides = [&] {
      const bool reads = (task.flags & ManyTask::reads_sides) != 0;
      const float* from = task.side + element;
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r, from += kRowGroups * task.outer) {
        LAMINA_UNROLL
        for (int c = 0; c < 2; ++c)
          if (reads && is_column[c] && own.row + r * kRowGroups < task.rows) sides[r].v[c] = load_shared_between_blocks(from + c * kApart);
      }
    };
    if constexpr (gradient) {
      read_sides();
    } else {
      const bool reads = (task.flags & ManyTask::of_columns) != 0;
      LAMINA_UNROLL
      for (int c = 0; c < 2; ++c)
        if (reads && is_column[c]) sides[0].v[c] = load_shared_between_blocks(task.side + own.column + c * kApart);
    }
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) {
      LAMINA_UNROLL
      for (int c = 0; c < 2; ++c) sums[r].v[c] = task.flags & Task::begins_sums ? 0 : sums[r].v[c];
    }
    if (task.flags & Task::multiplies) [[likely]] {
      multiply_piece<R, gradient>(weights + own.column * (gradient ? kLeading : 1), x, kRowGroups * task.leading, sums);
    } else {
      if constexpr (!gradient) read_sides();
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) {
        LAMINA_UNROLL
        for (int c = 0; c < 2; ++c) sums[r].v[c] = x[r * kRowGroups * task.leading + own.column + c * kApart];
      }
    }
    if constexpr (gradient) {
      // So that no side is used, and waited for, before the sums are there. The compiler does not know that it is 0.
      const int zero = task.flags & Task::never;
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) {
        LAMINA_UNROLL
        for (int c = 0; c < 2; ++c)
          sides[r].v[c] = scalar::float_of(scalar::bits_of(sides[r].v[c]) ^ (scalar::bits_of(sums[r].v[c]) & zero));
      }
    }
    if (makes(Mistake::meets_early)) meet();
    float* const y = memory.shared + task.y + own.row * ManyRows::kStride + own.column;
    const auto put = [&](int r, int c, float result) { y[r * kRowGroups * ManyRows::kStride + c * kApart] = result; };
    if (task.flags & Task::is_plain) [[likely]] {
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) {
        LAMINA_UNROLL
        for (int c = 0; c < 2; ++c)
          put(r, c, gradient ? scalar::relu_grad(sums[r].v[c], sides[r].v[c]) : scalar::relu(sums[r].v[c] + sides[0].v[c]));
      }
    } else if (task.flags & Task::ends_sums) {
      LAMINA_ROLLED
      for (int e = 0; e < 2 * R; ++e) {
        const int r = e / 2, c = e % 2;
        float side = picked(sides, task.flags & ManyTask::of_columns ? c : e);
        if (task.flags & ManyTask::is_dropout)
          side = dropout_factor(reinterpret_cast<const long long*>(task.side), task.alpha,
                                task.element + element + (long long)(r * kRowGroups) * task.outer + c * kApart);
        const float result = finish<gradient>(picked(sums, e), side, task);
        put(r, c, own.column + c * kApart < task.columns ? result : 0);  // columns beyond the last meet weights of 0, and must be finite
      }
    }
    if (!makes(Mistake::meets_early)) meet();  // the results are there
  }
}

// By a warp: the rows that a piece of the first product multiplies. Rows and terms that are not there: 0.
LAMINA_DEVICE void bring_many(const Pieces& p, const float* first_rows, float* to, int rows) {
  const int terms = least(kPiece, p.inner - p.chunk * kPiece), in_pass = p.rows();
  const float* const from = first_rows + ((long long)p.row * p.inner + p.chunk * kPiece);
  if (terms == kPiece && p.inner % 4 == 0 && reinterpret_cast<size_t>(from) % 16 == 0) {
    const int column = int(lane()) % (kPiece / 4) * 4;
    LAMINA_ROLLED
    for (int r = int(lane()) / (kPiece / 4); r < rows; r += 2) {
      if (r < in_pass)
        copy_async<16>(to + r * kLeading + column, from + (long long)r * p.inner + column);
      else
        put_four(to + r * kLeading + column, Four{});
    }
    return;
  }
  LAMINA_ROLLED
  for (int r = 0; r < rows; ++r) {
    LAMINA_UNROLL
    for (int column = int(lane()); column < kPiece; column += int(kWarp)) {
      if (r < in_pass && column < terms)
        copy_async<4>(to + r * kLeading + column, from + (long long)r * p.inner + column);
      else
        to[r * kLeading + column] = 0;
    }
  }
}
// By a warp, whose lanes have two neighbouring columns each: stores the results of a piece.
LAMINA_DEVICE void store_many(const Pieces& p, const float* from) {
  const Link& link = p.at();
  const int first = p.group * kPiece + 2 * int(lane()), in_pass = p.rows(), columns = p.outer - first;
  float* to = link.y + ((long long)p.row * p.outer + first);
  from += first;
  const bool in_twos = (link.flags & Link::stores_whole) != 0;
  LAMINA_UNROLL_BY(4)
  for (int r = 0; r < in_pass; ++r, to += p.outer, from += ManyRows::kStride) {
    const Two values = two_in_order(from);
    if (in_twos) {
      put_two(to, values);
    } else {
      if (columns > 0) to[0] = values.v[0];
      if (columns > 1) to[1] = values.v[1];
    }
  }
}

// By a warp: brings the first product's rows, one piece ahead; stores results; and tells how far the chain is.
LAMINA_DEVICE void have_many(const Block& b, const ChainMemory& memory, Pieces p, const ManyRows& rows, const float* first_rows,
                             bool last_model) {
  const bool timed = b.launch().clock != nullptr;
  const unsigned long long since = timed ? cycles() : 0;
  wait_for_rows(b, memory);
  Pieces coming = p;
  unsigned number = 0;
  const auto ask = [&] {
    if (!coming.some()) return;
    if (coming.link == 0) bring_many(coming, first_rows, memory.shared + rows.of_piece(number), rows.rows);
    commit_copies();
    coming.go_on(), ++number;
  };
  Done done{0, 0};
  ask();
  wait_copies<0>();
  meet();
  if (timed && lane() == 0 && b.step().early) clock_waited(b, since);
  for (; p.some(); p.go_on()) {
    ask();
    wait_copies<0>();
    if (!makes(Mistake::stores_early)) meet();
    ++done.pieces;
    if (p.ends_sums()) store_many(p, memory.shared + rows.of_link(p.side ^ 1));
    if (p.ends_link()) {
      if (timed && lane() == 0) end_link(b, p, last_model);
      done.links += p.last_pass();
    }
    tell_in_block(memory.done(), done.both());
    if (makes(Mistake::stores_early)) meet();
  }
}

}  // namespace lamina::kernels::cuda::resident
