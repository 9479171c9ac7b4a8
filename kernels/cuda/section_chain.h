// A chain: consecutive products of a block's list. They are dense layers, or the gradients of their inputs, and each takes the result of
// the one before. The block's warps have roles. With few rows:
//   4 compute    in two pairs, which take turns: while one multiplies a piece, the other loads the next one's weights into its registers
//   2 fetch      weights, biases and masks into a ring, as far ahead as it has places
//   1 has rows   brings the first product's, and stores results, from shared to global memory
//   1 announces  results to the blocks that wait for them; the fence before takes longer than a layer
// With many, the four compute together (section_many.h). A piece is up to 64 sums of up to 64 terms, whatever the layer's size, in shared
// memory as in the device's: a row of it is a term forward, and a sum backward. A computing thread has a column of all rows. The barrier
// before piece p says that its rows are there, which are the results of pieces before it, and that its weights have left the ring. Sums go
// through their terms in order, as fused multiply-adds from 0: the bits of kernels/cpu/tiles.h.
#pragma once
#include "kernels/cuda/section_clock.h"
#include "kernels/cuda/section_fetch.h"
#include "kernels/cuda/section_many.h"
#include "kernels/cuda/section_store.h"

namespace lamina::kernels::cuda::resident {

// A function of its own: with the other roles' registers beside it, ptxas puts off loads of rows.
template <bool gradient>
LAMINA_CALLED void compute(ChainMemory memory, int places, int thread) {
  constexpr int R = kFewRows, kQuads = kPiece / 4, kAhead = 3;
  const int pair = thread / kPiece, column = thread % kPiece;
  int place = pair;
  unsigned there = 0;  // pieces
  if (pair > 0) meet();
  for (unsigned piece = unsigned(pair);; piece += 2) {
    if (there <= piece) there = wait_for_piece(memory, piece);
    const float* const own = memory.place(place);
    place += 2, place -= place < places ? 0 : places;
    const Task task = *reinterpret_cast<const Task*>(own + kTaskAt);
    if (task.flags & Task::ends_pair) {
      if (task.flags & Task::meets) meet();
      return;
    }
    const float* const sides = own + kSideAt + column;
    const float* const x = memory.shared + task.x;
    float* const y = memory.shared + task.y + column;
    float side[R], sums[R];
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) side[r] = sides[gradient ? r * kPiece : 0];
    if (task.flags & Task::multiplies) [[likely]] {
      Four w[kQuads], v[kAhead + 1][R];
      LAMINA_UNROLL
      for (int q = 0; q < kQuads; ++q)
        w[q] =
            gradient ? four_in_order(own + column * kLeading + 4 * q) : four_of_column_in_order<kLeading>(own + 4 * q * kLeading + column);
      meet();
      const auto load = [&](int q) {
        LAMINA_UNROLL
        for (int r = 0; r < R; ++r) {
          v[q % (kAhead + 1)][r] = same_four_in_order(x + r * task.leading + 4 * q);
          if (q == 0) sums[r] = task.flags & Task::begins_sums ? 0 : one_in_order(y + r * kMostWidth);
        }
      };
      LAMINA_UNROLL
      for (int q = 0; q < kAhead; ++q) load(q);
      LAMINA_UNROLL
      for (int q = 0; q < kQuads; ++q) {
        if (q + kAhead < kQuads) load(q + kAhead);
        LAMINA_UNROLL
        for (int i = 0; i < 4; ++i) {
          LAMINA_UNROLL
          for (int r = 0; r < R; ++r) sums[r] = fma(v[q % (kAhead + 1)][r].v[i], w[q].v[i], sums[r]);
        }
      }
    } else {
      meet();
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) sums[r] = x[r * task.leading + column];
    }
    if (makes(Mistake::meets_early)) meet();
    if (!(task.flags & Task::is_plain)) [[unlikely]] {
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) y[r * kMostWidth] = sums[r];
      if (task.flags & Task::ends_sums) {
        const bool is_bias = !gradient && LinkKind(task.kind) == LinkKind::product;
        LAMINA_ROLLED
        for (int r = 0; r < R; ++r) {
          const float result = finish<gradient>(y[r * kMostWidth], sides[is_bias ? 0 : r * kPiece], task);
          y[r * kMostWidth] = column < task.columns ? result : 0;  // columns beyond the last meet weights of 0, and must be finite
        }
      }
      if (!makes(Mistake::meets_early)) meet();
      continue;
    }
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) y[r * kMostWidth] = gradient ? scalar::relu_grad(sums[r], side[r]) : scalar::relu(sums[r] + side[r]);
    if (!makes(Mistake::meets_early)) meet();  // the results are in shared memory
  }
}

// Finds the links of the block's next chain first, if it follows this one: its record is there, since the block's last warp has brought it.
static_assert(kComputeThreads + kFetchThreads + 2 * kWarp == kThreads);
LAMINA_DEVICE void announce(const Block& b, const ChainMemory& memory, unsigned* counters, int count) {
  const int next = b.position + count;
  sync_warp();
  if (const BlockStep& after = Block::record(b.current + 1).step; next < b.count && after.chain > 0 && fit_together(count, after.chain))
    find_links(b, after, b.chains + 1, next, b.models_of(after).begin, int(lane()), int(kWarp));
  for (int told = 0; told < count;) {
    int now = told;
    if (lane() == 0)
      while ((now = makes(Mistake::announces_early) ? count : int(Done::from(load_acquire_in_block(memory.done())).links)) == told) pause();
    now = shuffle(now, 0);
    sync_warp();
    if (!memory.tells()) return;
    for (int i = told + int(lane()); i < now; i += int(kWarp))
      if (const int signal = memory.links()[i].signal; signal >= 0) {
        if (makes(Mistake::announces_unfenced))
          atomic_add(counters + signal, 1u);
        else
          add_release(counters + signal, 1);
      }
    told = now;
  }
}

// The last model's results raise the products' counters. Inlined, addresses of all roles would be kept over the models, and spilled. The
// block's parts come as values: a Block that is given by reference lies in memory for the whole kernel.
template <bool few, bool gradient>
LAMINA_CALLED void run_roles(char* const* at, const int* list, int listed, int position, int current, int chains, const float* first_rows,
                             int count, int row, int rows_end, bool last_model) {
  Block b(at, list, listed);
  b.position = position, b.current = current, b.chains = chains;
  const Rows rows{row, rows_end};
  const ChainMemory memory(b.chains, count);
  const int passes = few ? 1 : section::passes_of(rows.size()), in_pass = few ? kFewRows : (rows.size() + passes - 1) / passes;
  const int of_group = few ? 0 : section::rows_of_group(in_pass), places = b.launch().ring - (few ? 0 : ManyRows::places(of_group));
  const Pieces pieces(memory.links(), count, in_pass, rows);
  const ManyRows many(places, of_group);
  const int t = int(thread_index());
  const int fetcher = t - kComputeThreads, with_rows = fetcher - kFetchThreads;
  if (fetcher < 0) {
    if constexpr (few)
      compute<gradient>(memory, places, t);
    else if (of_group == 1)
      compute_many<1, gradient>(chains, count, places, t);
    else if (of_group == 3)
      compute_many<3, gradient>(chains, count, places, t);
    else
      compute_many<5, gradient>(chains, count, places, t);
  } else if (with_rows < 0) {
    fetch<few, gradient>(b, memory, pieces, many, unsigned(places), fetcher);
  } else if (with_rows < int(kWarp)) {
    if constexpr (few)
      have_rows(b, memory, pieces, first_rows, last_model);
    else
      have_many(b, memory, pieces, many, first_rows, last_model);
  } else if (last_model) {
    announce(b, memory, b.launch().state, count);
  }
}

// Runs the chain at the block's position; false: the launch should stop. known: whether the first model's links are found, then the next's.
LAMINA_DEVICE bool run_chain(Block& b, bool& known) {
  const BlockStep& s = b.step();
  const int count = s.chain;
  const bool gradient = s.kind == StepKind::dense_grad_input;
  const Rows rows = b.rows_of(s), models = b.models_of(s);
  const int t = int(thread_index());
  const bool empty = rows.size() <= 0 || models.size() <= 0 || (gradient ? s.k : s.n) == 0;
  for (b.model = models.begin; b.model < models.end && !empty; ++b.model) {
    if (!known) {
      // The model before is done with the links.
      if (sync_block_or(b.model > models.begin && ChainMemory(b.chains, count).stopped())) break;
      find_links(b, s, b.chains, b.position, b.model, t, kThreads);
      sync_block();  // the links are found
    }
    known = false;
    const float* first_rows = b.operand<const float>(0);
    const bool last_model = b.model + 1 == models.end;
    const auto run = [&](auto few, auto back) {
      run_roles<few, back>(b.at, b.list, b.count, b.position, b.current, b.chains, first_rows, count, rows.begin, rows.end, last_model);
    };
    if (rows.size() <= kFewRows)
      gradient ? run(std::true_type{}, std::true_type{}) : run(std::true_type{}, std::false_type{});
    else
      gradient ? run(std::false_type{}, std::true_type{}) : run(std::false_type{}, std::false_type{});
  }
  b.model = 0;
  if (empty) {
    if (s.early && sync_block_or(!wait_for_others(b, s.first_wait, s.waits, t, kThreads))) return false;
    for (int i = t; i < count; i += kThreads)
      if (const int signal = b.listed(b.position + i).signal; signal >= 0) add_release(b.launch().state + signal, 1);
    for (int i = 0; i < count; ++i) {
      if (i > 0) clock_begin_wait(b, b.position + i), clock_begin_step(b, b.position + i);
      clock_end_step(b, b.position + i);
    }
  }
  const bool good = !sync_block_or(!empty && ChainMemory(b.chains, count).stopped());
  const int after = b.position + count < b.count ? Block::record(b.current + 1).step.chain : 0;
  known = !empty && after > 0 && fit_together(count, after), ++b.chains;
  return good;
}

}  // namespace lamina::kernels::cuda::resident
