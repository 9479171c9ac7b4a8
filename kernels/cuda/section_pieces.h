// The pieces of a chain (section_chain.h), their order, and what its warps share: memory and barriers.
#pragma once
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

// A product of the chain, with its addresses.
struct alignas(16) Link {
  int inner, outer;  // terms of a sum; sums per row
  float alpha;
  int activation;
  const float* w;
  const float* side;  // bias, or the mask; null: none
  float* y;
  long long signal;  // a counter, or -1
};
static_assert(sizeof(Link) == kLinkFloats * 4);

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
    if (!ends_sums()) {
      ++chunk;
      return;
    }
    chunk = 0;
    if ((group + 1) * kPiece < outer) {
      ++group;
      return;
    }
    group = 0, side ^= 1;
    if (++link == count) link = 0, row += rows_in_pass;
    look();
  }
};

// The chain's shared memory.
struct ChainMemory {
  float* shared;
  LAMINA_DEVICE Link* links() const { return reinterpret_cast<Link*>(shared + kLinksAt); }
  LAMINA_DEVICE float* stage(int piece) const { return shared + kRingAt + (piece & (kStages - 1)) * kStageFloats; }
  LAMINA_DEVICE float* rows(int side) const { return shared + kRowsAt + side * (kMostRows * kMostWidth); }
  LAMINA_DEVICE unsigned* stored() const { return reinterpret_cast<unsigned*>(shared + kStoredAt); }  // links whose results are in memory
};
// The barriers of even and of odd pieces are met by all but the announcing warp and the other pair of fetching ones.
inline constexpr int kMeetingThreads = kComputeThreads + kPairThreads + int(kWarp);
template <int number>
struct Barrier {
  static constexpr int value = number;
};
LAMINA_DEVICE void meet_at(int piece) {
  if (piece & 1)
    sync_some<2, kMeetingThreads>();
  else
    sync_some<1, kMeetingThreads>();
}

// Finds the addresses of a chain's products, for one model; by one of `threads` threads, for all behind the next barrier. first: the
// chain's.
LAMINA_DEVICE void find_links(const Block& b, const BlockStep& first, int position, long long model, int thread, int threads) {
  const ChainMemory memory{dynamic_shared<float>()};
  const bool gradient = first.kind == StepKind::dense_grad_input;
  const BlockOperand* operands = b.all_operands();
  for (int i = thread; i < first.chain; i += threads) {
    const BlockStep& product = b.listed(position + i);
    Link& to = memory.links()[i];
    to.inner = gradient ? product.n : product.k, to.outer = gradient ? product.k : product.n;
    to.alpha = product.scalar, to.activation = int(product.activation);
    to.w = b.data<const float>(operands[product.first_in + 1], model);
    to.side = (gradient ? product.has_mask : product.has_bias) ? b.data<const float>(operands[product.first_in + 2], model) : nullptr;
    to.y = b.data<float>(operands[product.first_out], model);
    to.signal = product.signal;
  }
  if (thread == 0) *memory.stored() = 0;
}

// What the computing warps do with a piece. It comes with the piece, so that they have nothing to find out.
struct alignas(16) Task {
  enum : int {
    begins_sums = 1,
    ends_sums = 2,
    has_side = 4,
    is_last = 8,
    is_plain = 16,  // relu of whole sums with a side, in 64 columns: the usual case
  };
  int x, leading, y, flags;  // in floats of shared memory: rows of terms, their stride, rows of results
  int columns, activation;   // sums of the piece
  float alpha;
  int unused;
};
static_assert(sizeof(Task) == kTaskFloats * 4);

// For the piece that lies in this stage.
LAMINA_DEVICE Task task_of(const ChainMemory& memory, const Pieces& p, const float* stage) {
  const Link& link = p.at();
  Pieces next = p;
  next.go_on();
  Task task{};
  task.x = int((p.link == 0 ? stage + kFirstRowsAt : memory.rows(p.side) + p.chunk * kPiece) - memory.shared);
  task.leading = p.link == 0 ? kPiece : kMostWidth;
  task.y = int(memory.rows(p.side ^ 1) - memory.shared) + p.group * kPiece;
  task.columns = p.outer - p.group * kPiece, task.activation = link.activation, task.alpha = link.alpha;
  const bool is_plain =
      p.chunk == 0 && p.ends_sums() && link.side && Activation(link.activation) == Activation::relu && task.columns >= kPiece;
  task.flags = (p.chunk == 0 ? Task::begins_sums : 0) | (p.ends_sums() ? Task::ends_sums : 0) | (link.side ? Task::has_side : 0) |
               (next.some() ? 0 : Task::is_last) | (is_plain ? Task::is_plain : 0);
  return task;
}

}  // namespace lamina::kernels::cuda::resident
