// The warp of a chain of few rows (section_chain.h) that has them: brings the first product's or takes what another block hands, stores
// results, and hands them on.
#pragma once
#include "kernels/cuda/section_clock.h"
#include "kernels/cuda/section_fetch.h"

namespace lamina::kernels::cuda::resident {

// Of a link that stores 64 columns of all rows, from the next barrier on. A lane has two neighbouring columns.
struct WholeRows {
  const float* from;
  float* to;
  unsigned long long* handed;  // null: they are not handed on
  LAMINA_DEVICE WholeRows(const ChainMemory& memory, const Pieces& p, unsigned long long* all) {
    const Link& link = p.at();
    const int skipped = p.row * kPiece + 2 * int(lane());
    from = memory.rows(p.side ^ 1) + 2 * int(lane()), to = link.y + skipped;
    handed = link.hands >= 0 ? all + (link.hands + skipped) : nullptr;
  }
  LAMINA_DEVICE void store(const ChainMemory& memory) const {
    const bool hands = handed && memory.tells();
    Two values[kFewRows];
    LAMINA_UNROLL
    for (int r = 0; r < kFewRows; ++r) values[r] = two_in_order(from + r * kMostWidth);
    if (hands) {
      LAMINA_UNROLL
      for (int r = 0; r < kFewRows; ++r) {
        LAMINA_UNROLL
        for (int c = 0; c < 2; ++c) store_marked(handed + r * kPiece + c, values[r].v[c]);
      }
    }
    LAMINA_UNROLL
    for (int r = 0; r < kFewRows; ++r) put_two(to + r * kPiece, values[r]);
  }
};
// Of any piece. handed: the section's handed numbers.
LAMINA_DEVICE void store_rows(const ChainMemory& memory, const Pieces& p, unsigned long long* handed) {
  const Link& link = p.at();
  const int first = p.group * kPiece + int(lane()), count = p.outer - p.group * kPiece, in_pass = p.rows();
  const float* from = memory.rows(p.side ^ 1) + first;
  float* to = link.y + (long long)p.row * p.outer + first;
  constexpr int kTimes = kPiece / int(kWarp);
  float values[kFewRows][kTimes];
  LAMINA_UNROLL
  for (int r = 0; r < kFewRows; ++r) {
    LAMINA_UNROLL
    for (int i = 0; i < kTimes; ++i) values[r][i] = from[r * kMostWidth + i * int(kWarp)];
  }
  if (link.hands >= 0 && memory.tells()) {
    handed += link.hands + (p.row * p.outer + first);
    LAMINA_UNROLL
    for (int r = 0; r < kFewRows; ++r) {
      LAMINA_UNROLL
      for (int i = 0; i < kTimes; ++i)
        if (int(lane()) + i * int(kWarp) < count && r < in_pass) store_marked(handed + r * p.outer + i * int(kWarp), values[r][i]);
    }
  }
  LAMINA_UNROLL
  for (int r = 0; r < kFewRows; ++r, to += p.outer) {
    LAMINA_UNROLL
    for (int i = 0; i < kTimes; ++i)
      if (int(lane()) + i * int(kWarp) < count && r < in_pass) to[i * int(kWarp)] = values[r][i];
  }
}

// Links from p on, as long as each stores 64 columns of all rows, and another one follows: what the loop below does, with less to decide. A
// turn of this warp must not take longer than one of those that multiply.
LAMINA_DEVICE void store_whole(const ChainMemory& memory, Pieces& p, Done& done, unsigned long long* handed) {
  if (p.rows() < kFewRows) return;
  while (p.link + 1 < p.count && (p.at().flags & Link::stores_whole) != 0) {
    const WholeRows rows(memory, p, handed);
    ++p.link, p.side ^= 1, ++done.pieces, ++done.links;
    meet();
    rows.store(memory);
    tell_in_block(memory.done(), done.both());
  }
  p.look();
}

// The first product's rows, as another block hands them from `handed` on; 0 where there are no more.
LAMINA_DEVICE void take_rows(const Block& b, const ChainMemory& memory, const unsigned long long* handed, float* rows, int in_pass,
                             int width) {
  constexpr int kTimes = kPiece / int(kWarp);
  for (int chunk = 0; chunk < width; chunk += kPiece) {
    const auto column = [&](int i) { return chunk + i * int(kWarp) + int(lane()); };
    unsigned long long values[kFewRows][kTimes];
    for (unsigned polls = 0;; ++polls) {
      // All loads first: a test of one before the next is asked for would take the way to the L2 cache once more.
      LAMINA_UNROLL
      for (int r = 0; r < kFewRows; ++r) {
        LAMINA_UNROLL
        for (int i = 0; i < kTimes; ++i) values[r][i] = load_marked(handed + least(r, in_pass - 1) * width + least(column(i), width - 1));
      }
      bool are_there = true;
      LAMINA_UNROLL
      for (int r = 0; r < kFewRows; ++r) {
        LAMINA_UNROLL
        for (int i = 0; i < kTimes; ++i) are_there = are_there && has_mark(values[r][i]);
      }
      if (are_there) break;
      if (polls % 64 == 63 && !goes_on(b, polls)) {
        atomic_or(memory.word(ChainMemory::kStopped), 1u);
        break;
      }
    }
    LAMINA_UNROLL
    for (int r = 0; r < kFewRows; ++r) {
      LAMINA_UNROLL
      for (int i = 0; i < kTimes; ++i) rows[r * kMostWidth + column(i)] = r < in_pass && column(i) < width ? without_mark(values[r][i]) : 0;
    }
  }
}
// When they are there. Those that come later, in a launch that stops, are removed by the last block.
LAMINA_DEVICE void remove_marks(unsigned long long* handed, int count) {
  for (int i = int(lane()); i < count; i += int(kWarp))
    if (!makes(Mistake::leaves_marks)) remove_mark(handed + i);
}

// Behind the waits of a chain that began early.
LAMINA_DEVICE void wait_for_rows(const Block& b, const ChainMemory& memory) {
  if (!b.step().early || makes(Mistake::takes_rows_early)) return;
  if (!wait_for_others(b, b.step().first_wait, b.step().waits, int(lane()), int(kWarp))) atomic_or(memory.word(ChainMemory::kStopped), 1u);
  sync_warp();
}
// By one lane: the link's last piece is done.
LAMINA_DEVICE void end_link(const Block& b, const Pieces& p, bool last_model) {
  clock_next_product(b, b.position + p.link, b.position + (p.link + 1 < p.count ? p.link + 1 : 0), last_model && p.last_pass());
}

// Brings the first product's rows, a few pieces ahead, and stores results. Tells which places of the ring are free again, and which results
// are stored.
LAMINA_DEVICE void have_rows(const Block& b, const ChainMemory& memory, Pieces p, const float* first_rows, bool last_model) {
  const bool timed = b.launch().clock != nullptr;
  const unsigned long long since = timed ? cycles() : 0;
  const bool early = b.step().early != 0, takes = b.step().takes >= 0;
  unsigned long long* const handed = b.handed();
  // The first product's pieces. A group of copies for each, and two more.
  constexpr unsigned kAhead = kFirstRows - 1;
  Pieces coming(memory.links(), 1, kFewRows, {p.row, p.rows_end});
  const unsigned of_first = takes ? 0 : unsigned(pieces_of(p.inner, p.outer));
  unsigned number = 0;  // of the piece that is asked for
  const auto ask = [&] {
    const bool some = number < of_first + kAhead - 1;
    if (some) [[unlikely]] {
      if (coming.some()) {
        bring_rows(coming, first_rows, memory.shared + ChainMemory::first_rows(int(number)));
        coming.go_on();
      }
      commit_copies();
      ++number;
    }
    return some;
  };
  wait_for_rows(b, memory);
  if (takes) {
    unsigned long long* const taken = handed + (b.step().takes + p.row * p.inner);
    take_rows(b, memory, taken, memory.rows(p.side), p.rows(), p.inner);
    meet();
    remove_marks(taken, p.rows() * p.inner);
  } else {
    LAMINA_ROLLED
    for (unsigned i = 0; i < kAhead; ++i) ask();
    wait_copies<kAhead - 1>();
    meet();
  }
  if (timed && lane() == 0 && (early || takes)) clock_waited(b, since);
  Done done{0, 0};
  for (; p.some(); p.go_on()) {
    if (!timed && (takes || number == of_first + kAhead - 1)) store_whole(memory, p, done, handed);
    if (!takes && ask()) [[unlikely]]
      wait_copies<kAhead - 1>();
    const bool is_whole = p.rows() == kFewRows && (p.at().flags & Link::stores_whole) != 0;
    const WholeRows rows(memory, p, handed);
    if (!makes(Mistake::stores_early)) meet();
    ++done.pieces;
    if (p.ends_sums()) {
      if (is_whole)
        rows.store(memory);
      else
        store_rows(memory, p, handed);
      if (p.ends_link()) {
        if (timed && lane() == 0) end_link(b, p, last_model);
        ++done.links;
      }
    }
    tell_in_block(memory.done(), done.both());
    if (makes(Mistake::stores_early)) meet();
  }
}

}  // namespace lamina::kernels::cuda::resident
