// A chain: consecutive products of a block's list. They are dense layers, or the gradients of their inputs, and each takes the result of
// the one before. The block's warps have roles:
//   4 compute    half of the columns each, of half of the rows; they touch shared memory only, and meet the others once per piece of
//   weights 2 fetch      weights, biases, masks and the first product's rows 1 stores     results, from shared to global memory 1 announces
//   results to the blocks that wait for them; the fence before takes longer than a layer
// A piece is up to 64 sums of up to 64 terms, whatever the layer's size, in shared memory as in the device's: a row of it is a term
// forward, and a sum backward. The barrier behind piece p says that its results are there and that piece p + 1 is. Sums go through their
// terms in order, as fused multiply-adds from 0: the bits of kernels/cpu/tiles.h.
#pragma once
#include "kernels/cuda/section_clock.h"
#include "kernels/cuda/section_fetch.h"

namespace lamina::kernels::cuda::resident {

template <int R, bool gradient>
LAMINA_DEVICE void compute(const ChainMemory& memory, int thread) {
  constexpr int kQuads = kPiece / 4, kAhead = 3, kOwn = R * kPiece / kComputeThreads;  // rows of a thread
  const int column = thread % kPiece, row = thread / kPiece * kOwn;
  Four w[kAhead + 1], v[kAhead + 1][kOwn];
  float sums[kOwn];
  const float* own = memory.place(0);
  meet();
  Task task = *reinterpret_cast<const Task*>(own + kTaskAt);
  // A piece; false after the last one.
  const auto turn = [&] {
    const float* const x = memory.shared + task.x + row * task.leading;
    const auto load = [&](int q) {
      w[q % (kAhead + 1)] =
          gradient ? four_in_order(own + column * kLeading + 4 * q) : four_of_column_in_order<kLeading>(own + 4 * q * kLeading + column);
      LAMINA_UNROLL
      for (int r = 0; r < kOwn; ++r) v[q % (kAhead + 1)][r] = same_four_in_order(x + r * task.leading + 4 * q);
    };
    LAMINA_UNROLL
    for (int q = 0; q < kAhead; ++q) load(q);
    // Behind the last piece nothing comes: it is read again.
    const bool is_last = (task.flags & Task::is_last) != 0;
    const float* const coming = is_last ? own : own == memory.place(kStages - 1) ? memory.place(0) : own + kPlaceFloats;
    const Task after = *reinterpret_cast<const Task*>(coming + kTaskAt);
    const float* const sides = own + kSideAt + column;
    float side[kOwn];
    LAMINA_UNROLL
    for (int r = 0; r < kOwn; ++r) side[r] = sides[gradient ? (row + r) * kPiece : 0];
    int results = task.y + row * kMostWidth + column;
    LAMINA_KNOWN_HERE(results);
    float* const y = memory.shared + results;
    if (task.flags & Task::begins_sums) {
      LAMINA_UNROLL
      for (int r = 0; r < kOwn; ++r) sums[r] = 0;
    }
    LAMINA_UNROLL
    for (int q = 0; q < kQuads; ++q) {
      if (q + kAhead < kQuads) load(q + kAhead);
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) {
        LAMINA_UNROLL
        for (int r = 0; r < kOwn; ++r) sums[r] = fma(v[q % (kAhead + 1)][r].v[i], w[q % (kAhead + 1)].v[i], sums[r]);
      }
    }
    if (makes(Mistake::meets_early)) meet();
    if (task.flags & Task::is_plain) [[likely]] {
      LAMINA_UNROLL
      for (int r = 0; r < kOwn; ++r) y[r * kMostWidth] = gradient ? scalar::relu_grad(sums[r], side[r]) : scalar::relu(sums[r] + side[r]);
    } else if (task.flags & Task::ends_sums) {
      LAMINA_UNROLL
      for (int r = 0; r < kOwn; ++r) y[r * kMostWidth] = sums[r];
      const bool is_bias = !gradient && LinkKind(task.kind) == LinkKind::product;
      LAMINA_ROLLED
      for (int r = 0; r < kOwn; ++r) {
        const float given = LinkKind(task.kind) == LinkKind::product ? y[r * kMostWidth] : x[r * task.leading + column];
        const float result = finish<gradient>(given, sides[is_bias ? 0 : (row + r) * kPiece], task);
        y[r * kMostWidth] = column < task.columns ? result : 0;  // columns beyond the last meet weights of 0, and must be finite
      }
    }
    task = after, own = coming;
    if (!makes(Mistake::meets_early)) meet();  // the results are in shared memory
    return !is_last;
  };
  while (turn()) {
  }
}

template <int R>
LAMINA_DEVICE void store_results(const Block& b, const ChainMemory& memory, Pieces p, bool last_model) {
  unsigned done = 0;
  const bool timed = b.arguments.clock != nullptr;  // asked once: the answer lies in global memory
  meet();
  for (; p.some(); p.go_on()) {
    if (!makes(Mistake::stores_early)) meet();
    if (p.ends_sums()) {
      const Link& link = p.at();
      const int first = p.group * kPiece + int(lane()), count = p.outer - p.group * kPiece, in_pass = p.rows();
      const float* from = memory.rows(p.side ^ 1) + first;
      float* to = link.y + (long long)p.row * p.outer + first;
      constexpr int kTimes = kPiece / int(kWarp);
      float values[R][kTimes];
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) {
        LAMINA_UNROLL
        for (int i = 0; i < kTimes; ++i) values[r][i] = from[r * kMostWidth + i * int(kWarp)];
      }
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r, to += p.outer) {
        LAMINA_UNROLL
        for (int i = 0; i < kTimes; ++i)
          if (int(lane()) + i * int(kWarp) < count && r < in_pass) to[i * int(kWarp)] = values[r][i];
      }
      if (p.ends_link()) {
        if (timed && lane() == 0)
          clock_next_product(b, b.position + p.link, b.position + (p.link + 1 < p.count ? p.link + 1 : 0), last_model && p.last_pass());
        done += p.last_pass();
        sync_warp();
        if (lane() == 0) store_release_in_block(memory.stored(), done);
      }
    }
    if (makes(Mistake::stores_early)) meet();
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
      while ((now = makes(Mistake::announces_early) ? count : int(load_acquire_in_block(memory.stored()))) == told) pause();
    now = shuffle(now, 0);
    sync_warp();
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

// The last model's results raise the products' counters. Inlined, addresses of all roles would be kept over the models, and spilled.
template <int R, bool gradient>
LAMINA_CALLED void run_roles(const Block& b, const float* first_rows, int count, Rows rows, bool last_model) {
  const ChainMemory memory(b.chains, count);
  const Pieces pieces(memory.links(), count, R, rows);
  const int t = int(thread_index());
  const int fetcher = t - kComputeThreads, storer = fetcher - kFetchThreads;
  if (fetcher < 0)
    compute<R, gradient>(memory, t);
  else if (storer < 0)
    fetch<R, gradient>(b, memory, pieces, first_rows, fetcher);
  else if (storer < int(kWarp))
    store_results<R>(b, memory, pieces, last_model);
  else if (last_model)
    announce(b, memory, b.arguments.state, count);
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
      sync_block();  // the model before is done with the links
      find_links(b, s, b.chains, b.position, b.model, t, kThreads);
      sync_block();  // the links are found
    }
    known = false;
    const float* first_rows = b.in<const float>(s, 0);
    const bool last_model = b.model + 1 == models.end;
    if (rows.size() <= kFewRows) {
      if (gradient)
        run_roles<kFewRows, true>(b, first_rows, count, rows, last_model);
      else
        run_roles<kFewRows, false>(b, first_rows, count, rows, last_model);
    } else {
      if (gradient)
        run_roles<kMostRows, true>(b, first_rows, count, rows, last_model);
      else
        run_roles<kMostRows, false>(b, first_rows, count, rows, last_model);
    }
  }
  b.model = 0;
  if (empty) {
    for (int i = t; i < count; i += kThreads)
      if (const int signal = b.listed(b.position + i).signal; signal >= 0) add_release(b.arguments.state + signal, 1);
    for (int i = 0; i < count; ++i) {
      if (i > 0) clock_begin_wait(b, b.position + i), clock_begin_step(b, b.position + i);
      clock_end_step(b, b.position + i);
    }
  }
  const bool good = !sync_block_or(!empty && *ChainMemory(b.chains, count).stopped() != 0);
  const int after = b.position + count < b.count ? Block::record(b.current + 1).step.chain : 0;
  known = !empty && after > 0 && fit_together(count, after), ++b.chains;
  return good;
}

}  // namespace lamina::kernels::cuda::resident
