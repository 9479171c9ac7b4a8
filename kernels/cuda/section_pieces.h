// The pieces of a chain (section_chain.h), their order, and what its warps share: memory and barriers.
#pragma once
#include "kernels/cuda/activate.h"
#include "kernels/cuda/section_block.h"
#include "kernels/shared/philox.h"

namespace lamina::kernels::cuda::resident {

using section::kRowGroups, section::LinkKind;

// A step of the chain, with its addresses.
struct alignas(16) Link {
  // Flags beside those of a Task.
  static constexpr int by_fours = 256,  // rows of weights are aligned to 16 bytes
      is_dropout = 512,                 // `side` is a dropout's generator
      is_whole = 1024,                  // a product of whole pieces only, which waits for nothing: the usual case
      is_one = 2048,                    // 64 sums of 64 terms
      stores_whole = 4096;              // one piece, with 64 sums that are aligned to 8 bytes
  const float* w;                       // null: no product
  const float* side;                    // bias, mask or other operand; a dropout's generator; null: none
  int outer, activation;                // sums per row
  float alpha;
  int kind;          // LinkKind
  int inner, flags;  // terms of a sum, 0 without a product; flags: those of a Task that its pieces may have, too
  float* y;
  int signal;  // a counter, or -1
  int first_wait, waits;
  int hands;  // BlockStep's
};
static_assert(sizeof(Link) == kLinkFloats * 4);

// What the computing warps do with a piece. It comes with the piece, so that they have nothing to find out. Behind the last piece come two
// tasks that end them, one for each pair of warps; the first of the two meets the others once more.
struct alignas(16) Task {
  enum : int {
    begins_sums = 1,
    ends_sums = 2,
    has_side = 4,
    multiplies = 8,
    is_plain = 16,  // ends sums with relu of them and a side, in 64 columns: the usual case
    ends_pair = 32,
    meets = 64,       // before it ends
    never = 1 << 30,  // no task has it
  };
  int x, leading, y, flags;  // in floats of shared memory: rows of terms, their stride, rows of results
  int columns, activation;   // sums of the piece
  float alpha;
  int kind;  // LinkKind
};
static_assert(sizeof(Task) == kTaskFloats * 4);
// With many rows. It takes the place of a bias or mask too, which the threads read themselves.
struct ManyTask : Task {
  // Beside Task's. The threads read an element of `side` for each of theirs, or one of a bias for each column.
  enum : int { reads_sides = 256, of_columns = 1024, is_dropout = 512 };
  const float* side;  // of the piece's first element; a dropout's generator
  long long element;  // its number in the matrix
  int outer, rows;
  int unused[2];  // written too, since all is read
};
static_assert(sizeof(ManyTask) == 64 && sizeof(ManyTask) <= (kTaskFloats + kFewRows * kPiece) * 4 &&
              ManyTask::is_dropout == Link::is_dropout);

// The pieces of a chain in order: for each pass over rows, link, group of sums and chunk of terms.
struct Pieces {
  const Link* links;
  int count, rows_in_pass;
  int row, rows_end;  // of the batch: first row of the pass; end of the block's rows
  int link = 0, group = 0, chunk = 0, inner = 0, outer = 0;
  int side = 0;  // which of the two places of rows has the link's; the other one gets its results
  LAMINA_DEVICE Pieces(const Link* all, int number, int in_pass, Rows rows)
      : links(all), count(number), rows_in_pass(in_pass), row(rows.begin), rows_end(rows.end) {
    look();
  }
  LAMINA_DEVICE void look() { inner = links[link].inner, outer = links[link].outer; }
  LAMINA_DEVICE bool some() const { return row < rows_end; }
  LAMINA_DEVICE const Link& at() const { return links[link]; }
  LAMINA_DEVICE bool ends_sums() const { return (chunk + 1) * kPiece >= inner; }
  LAMINA_DEVICE bool ends_link() const { return ends_sums() && (group + 1) * kPiece >= outer; }
  LAMINA_DEVICE bool last_pass() const { return row + rows_in_pass >= rows_end; }
  LAMINA_DEVICE int rows() const { return least(rows_in_pass, rows_end - row); }
  LAMINA_DEVICE void go_on() {
    if (inner <= kPiece && outer <= kPiece && link + 1 < count) {  // usually the link is one piece, and another follows
      side ^= 1, ++link;
      return look();
    }
    const bool sums = ends_sums(), all = ends_link(), pass = all && link + 1 == count;
    chunk = sums ? 0 : chunk + 1;
    group = all ? 0 : group + (sums ? 1 : 0);
    side ^= all ? 1 : 0;
    link = pass ? 0 : link + (all ? 1 : 0);
    row += pass ? rows_in_pass : 0;
    look();
  }
};

// The shared memory of a block's chain number `chain`, with so many links. Those of the next chain lie at the other end of the same memory,
// so that they can be found while this one runs, if there is room.
struct ChainMemory {
  // Words by which warps tell each other how far they are; and whether a wait has ended the launch.
  enum Word : int {
    kDone,  // two words, told in one: see Done
    kStopped = 2,
    kArrived,  // pieces that are in shared memory: as each fetching warp sees it
  };
  static_assert(kArrived + kFetchThreads / int(kWarp) <= kChainWords && kWordsAt % 2 == 0 && kChainWords % 2 == 0);
  float* shared;
  int odd, first_link;
  LAMINA_DEVICE ChainMemory(int chain, int links)
      : shared(dynamic_shared<float>()), odd(chain & 1), first_link(odd ? kMostLinks - links : 0) {}
  LAMINA_DEVICE Link* links() const { return reinterpret_cast<Link*>(shared + kLinksAt) + first_link; }
  LAMINA_DEVICE float* place(int number) const { return shared + kRingAt + number * kPlaceFloats; }
  LAMINA_DEVICE ManyTask task(int of_place) const { return *reinterpret_cast<const ManyTask*>(place(of_place) + kTaskAt); }
  LAMINA_DEVICE float* rows(int side) const { return shared + kRowsAt + side * (kFewRows * kMostWidth); }
  LAMINA_DEVICE unsigned* word(int which) const { return reinterpret_cast<unsigned*>(shared + kWordsAt) + kChainWords * odd + which; }
  LAMINA_DEVICE unsigned long long* done() const { return reinterpret_cast<unsigned long long*>(word(kDone)); }
  LAMINA_DEVICE bool stopped() const { return load_acquire_in_block(word(kStopped)) != 0; }
  LAMINA_DEVICE bool tells() const { return makes(Mistake::goes_on_stopped) || !stopped(); }  // a stopped chain has no results
  // The rows of the first product that piece `number` multiplies.
  LAMINA_DEVICE static int first_rows(int number) { return kFirstRowsAt + number % kFirstRows * (kFewRows * kPiece); }
};
// In floats of shared memory, in a chain of many rows: a pass's rows of two links, and of two pieces of the first product. Rows of two
// groups, which a warp reads at once, are in other banks.
struct ManyRows {
  static constexpr int kStride = kMostWidth + 4;
  int at, rows;
  // places: of the ring, left for weights. of_group: rows.
  LAMINA_DEVICE ManyRows(int places, int of_group) : at(kRingAt + places * kPlaceFloats), rows(of_group * kRowGroups) {}
  LAMINA_DEVICE static constexpr int places(int of_group) {
    return (2 * of_group * kRowGroups * (kStride + kLeading) + kPlaceFloats - 1) / kPlaceFloats;
  }
  LAMINA_DEVICE int of_link(int side) const { return at + side * rows * kStride; }
  LAMINA_DEVICE int of_piece(unsigned number) const { return at + (2 * kStride + int(number & 1) * kLeading) * rows; }
};
static_assert(ManyRows::places(section::kMostRowsInPass / kRowGroups) < kFewestPlaces && ManyRows::kStride % 32 == 4 && kLeading % 32 == 4);
// How far the warp with the rows is, in one number of 8 bytes: a release costs as much as a quarter of a piece.
struct Done {
  unsigned pieces;  // their places in the ring are free
  unsigned links;   // their results are in the device's memory
  LAMINA_DEVICE static Done from(unsigned long long v) { return {unsigned(v), unsigned(v >> 32)}; }
  LAMINA_DEVICE unsigned long long both() const { return (unsigned long long)links << 32 | pieces; }
};
LAMINA_DEVICE int pieces_of(int inner, int outer) { return most((inner + kPiece - 1) / kPiece, 1) * ((outer + kPiece - 1) / kPiece); }
LAMINA_DEVICE bool fit_together(int links, int next) { return links + next <= kMostLinks; }
// The computing warps and the one that brings and stores rows meet once a piece.
LAMINA_DEVICE void meet() { sync_some<1, kComputeThreads + int(kWarp)>(); }
// By a warp: waits until another one of the block has told a number that will do, and returns it. hurries: looks again without a pause,
// which may take as long as a third of a piece.
template <bool hurries, class T, class F>
LAMINA_DEVICE T wait_in_block(const T* word, const F& will_do) {
  T told = 0;
  if (lane() == 0)
    while (!will_do(told = load_acquire_in_block(word)))
      if (!hurries) pause();
  told = shuffle(told, 0);
  sync_warp();
  return told;
}
// Until the piece is in shared memory; returns how many are.
static_assert(kFetchThreads == 2 * kWarp);
LAMINA_DEVICE unsigned wait_for_piece(const ChainMemory& memory, unsigned piece) {
  const auto is_there = [&](unsigned told) { return told > piece; };
  const unsigned one = wait_in_block<true>(memory.word(ChainMemory::kArrived), is_there),
                 other = wait_in_block<true>(memory.word(ChainMemory::kArrived + 1), is_there);
  return one < other ? one : other;
}
template <class T>
LAMINA_DEVICE void tell_in_block(T* word, T number) {
  sync_warp();
  if (lane() == 0) store_release_in_block(word, number);
}

// Finds the addresses of a chain's steps, for one model; by one of `threads` threads, for all behind the next barrier. first: the
// chain's. number: of the chain.
LAMINA_DEVICE void find_links(const Block& b, const BlockStep& first, int number, int position, int model, int thread, int threads) {
  const ChainMemory memory(number, first.chain);
  const bool gradient = first.kind == StepKind::dense_grad_input;
  const BlockOperand* operands = b.all_operands();
  for (int i = thread; i < first.chain; i += threads) {
    const BlockStep& s = b.listed(position + i);
    const bool is_product = s.link == LinkKind::product;
    const int side = is_product ? (gradient ? s.has_mask : s.has_bias) ? 2 : 0 : s.link == LinkKind::activate ? 0 : 1;
    Link& to = memory.links()[i];
    to.inner = !is_product ? 0 : gradient ? s.n : s.k, to.outer = is_product && gradient ? s.k : s.n;
    to.alpha = s.scalar, to.activation = int(is_product ? s.activation : s.link_activation);
    to.w = is_product ? b.data<const float>(operands[s.first_in + 1], model) : nullptr;
    to.side = side > 0 ? b.data<const float>(operands[s.first_in + side], model) : nullptr;
    to.y = b.data<float>(operands[s.first_out], model);
    to.signal = s.signal, to.kind = int(s.link);
    const bool by_fours = is_product && s.n % 4 == 0 && reinterpret_cast<size_t>(to.w) % 16 == 0;
    to.flags =
        (by_fours ? Link::by_fours : 0) |
        (to.inner <= kPiece && to.outer == kPiece && reinterpret_cast<size_t>(to.y) % 8 == 0 ? Link::stores_whole : 0) |
        (s.link == LinkKind::dropout ? Link::is_dropout : 0) | (to.side ? Task::has_side : 0) |
        (to.w && to.side && Activation(to.activation) == Activation::relu ? Task::is_plain : 0) |
        (by_fours && to.inner > 0 && to.inner % kPiece == 0 && to.outer % kPiece == 0 && (i == 0 || s.waits == 0) ? Link::is_whole : 0) |
        (to.inner == kPiece && to.outer == kPiece ? Link::is_one : 0);
    to.first_wait = s.first_wait, to.waits = s.waits, to.hands = s.hands;
  }
  for (int i = thread; i < kChainWords; i += threads) *memory.word(i) = 0;
}

// By what a dropout multiplies an element: 0, or at least 1.
LAMINA_DEVICE float dropout_factor(const long long* generator, float rate, long long element) {
  const philox::Block words = philox::draw(load_shared_between_blocks(generator), load_shared_between_blocks(generator + 1), element / 4);
  unsigned word = 0;
  LAMINA_UNROLL
  for (int w = 0; w < 4; ++w)
    if (element % 4 == w) word = words.word[w];
  return word < philox::drop_below(rate) ? 0 : float(1 / (1 - double(rate)));
}

// Of the chain's piece with this number. rows_of: the link whose rows are brought piece by piece: the first one, if they are not handed.
LAMINA_DEVICE Task task_of(const Pieces& p, const Link& link, unsigned number, int rows_of) {
  constexpr int kPlaceOfRows = kFewRows * kMostWidth;
  Task task;
  task.x = p.link == rows_of ? ChainMemory::first_rows(int(number))
                             : kRowsAt + p.side * kPlaceOfRows + (p.inner > 0 ? p.chunk : p.group) * kPiece;
  task.leading = p.link == rows_of ? kPiece : kMostWidth;
  task.y = kRowsAt + (p.side ^ 1) * kPlaceOfRows + p.group * kPiece;
  task.columns = link.outer - p.group * kPiece, task.activation = link.activation, task.alpha = link.alpha, task.kind = link.kind;
  const bool ends = p.ends_sums();
  task.flags = (p.chunk == 0 ? Task::begins_sums : 0) | (ends ? Task::ends_sums : 0) | (link.w ? Task::multiplies : 0) |
               (link.flags & (ends && task.columns >= kPiece ? Task::has_side | Task::is_plain : int(Task::has_side)));
  return task;
}
// Of a chain of many rows.
template <bool gradient>
LAMINA_DEVICE ManyTask task_of(const Pieces& p, const Link& link, unsigned number, const ManyRows& rows) {
  ManyTask task{task_of(p, link, number, 0), nullptr, 0, 0, 0, {}};
  const int first = p.group * kPiece;
  const bool is_bias = !gradient && link.w, is_dropout = (link.flags & Link::is_dropout) != 0, reads = !is_dropout && link.side;
  task.x = p.link == 0 ? rows.of_piece(number) : rows.of_link(p.side) + (p.inner > 0 ? p.chunk * kPiece : first);
  task.leading = p.link == 0 ? kLeading : ManyRows::kStride;
  task.y = rows.of_link(p.side ^ 1) + first;
  task.outer = p.outer, task.rows = p.rows();
  task.element = (long long)p.row * p.outer + first;
  task.side = reads ? link.side + (is_bias ? first : task.element) : is_dropout ? link.side : link.y;  // some address
  if (task.flags & Task::ends_sums)
    task.flags |= (is_dropout ? ManyTask::is_dropout : 0) | (!reads ? 0 : is_bias ? ManyTask::of_columns : ManyTask::reads_sides);
  return task;
}
LAMINA_DEVICE Task end_of_pair(bool meets) {
  return {.x = 0,
          .leading = 0,
          .y = 0,
          .flags = Task::ends_pair | (meets ? Task::meets : 0),
          .columns = 0,
          .activation = 0,
          .alpha = 0,
          .kind = 0};
}

// given: the sum of a product; else the element before the link. T: Task or Link.
template <bool gradient, class T>
LAMINA_DEVICE float finish(float given, float side, const T& task) {
  const LinkKind kind = LinkKind(task.kind);
  if (kind == LinkKind::dropout) return side == 0 ? 0 : given * side;
  if (kind == LinkKind::add) return given + side;
  if (kind == LinkKind::multiply) return given * side;
  const bool has_side = (task.flags & Task::has_side) != 0;
  const Activation activation = Activation(task.activation);
  if (gradient ? kind != LinkKind::activate : kind == LinkKind::slope)
    return has_side ? through_activation(given, side, activation, task.alpha) : given;
  return activate(has_side ? given + side : given, activation, task.alpha);
}

}  // namespace lamina::kernels::cuda::resident
