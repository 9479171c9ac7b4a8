// A block's loop over its list of steps.
#pragma once
#include "kernels/cuda/section_chain.h"
#include "kernels/cuda/section_clock.h"
#include "kernels/cuda/section_interpreter.h"
#include "kernels/cuda/section_records.h"
#include "kernels/cuda/section_turn.h"

namespace lamina::kernels::cuda::resident {

inline constexpr unsigned kBringer = kThreads / kWarp - 1;  // the warp with the least to do

// Without a step before, the other warps find the links of a chain.
LAMINA_DEVICE void begin_at(Block& b, Ahead& ahead, int position) {
  b.position = position;
  if (position >= b.count) return;
  if (warp_index() == kBringer) {
    ahead.begin(b, position);
  } else if (b.listed(position).chain > 0) {
    const BlockStep& s = b.listed(position);
    find_links(b, s, b.chains, position, b.models_of(s).begin, int(thread_index()), kThreads - int(kWarp));
  }
  sync_block();
}

// of_ranks: the section has sums over ranks.
template <bool of_ranks>
LAMINA_DEVICE void run_block(const Arguments& a) {
  const int* starts = reinterpret_cast<const int*>(a.program + a.places.starts_at);
  const int begin = starts[block_index()], count = starts[block_index() + 1] - begin;
  const int* list = reinterpret_cast<const int*>(a.program + a.places.lists_at) + begin;
  Block b(a.at, list, count);
  b.bring_launch(a);
  b.timed = a.clock != nullptr && thread_index() == 0;
  clock_begin_block(b);
  if constexpr (of_ranks)
    if (block_index() == 0 && thread_index() == 0) report_stopped(b.launch());
  begin_turns(b);
  bool first = a.goes_on != 0;
  if (first) {
    const int from = int(load_acquire(a.state + a.places.counters + kGoOn)) - 1;
    while (list[b.position] != from) ++b.position;
  }
  Ahead ahead(b);  // of the warp kBringer
  begin_at(b, ahead, b.position);
  const bool timed = a.clock != nullptr;
  int found = kMostLinks;  // a chain at the position has its links already if it has at most so many
  unsigned go_on = 0;
  while (b.position < count) {
    const BlockStep& s = b.step();
    // Read once, together. The record is overwritten when the step is over.
    const StepKind kind = s.kind;
    const int chain = s.chain, waits = s.waits, signal = s.signal;
    [[maybe_unused]] const bool announced = of_ranks && section::announces(s);
    if (warp_index() == kBringer && kind != StepKind::loop) {
      ahead.go_on(b, b.current + 1);
      // It finds the links of a short chain while the others work; those of a longer one are found by all, when the step is over.
      if (const BlockStep& after = Block::record(b.current + 1).step;
          chain == 0 && after.chain > 0 && after.chain <= int(kWarp) && b.position + 1 < count)
        find_links(b, after, b.chains, b.position + 1, b.models_of(after).begin, int(lane()), int(kWarp));
    }
    if ((kind == StepKind::loop) | (chain > 0) | (waits > 0) | timed) [[unlikely]] {
      clock_begin_wait(b, b.position);
      if (kind == StepKind::loop) {
        const int place = b.position;
        const bool goes_on = take_turn(b, s, first);
        clock_begin_step(b, place), clock_end_step(b, place);
        if (!goes_on) {
          go_on = b.turns().leaves ? unsigned(list[place]) + 1 : 0;
          break;
        }
        first = false;
        begin_at(b, ahead, b.position);
        found = kMostLinks;
        continue;
      }
      if (waits > 0 && !s.early && !makes(Mistake::updates_before) &&
          sync_block_or(!wait_for_others(b, s.first_wait, waits, int(thread_index()), kThreads)))
        break;
      clock_begin_step(b, b.position);
      if (chain > 0) {
        bool known = chain <= found;
        if (!run_chain(b, known)) break;
        found = known ? kMostLinks : 0;
        b.position += chain, ++b.current;
        continue;
      }
    }
    if (!run_step<of_ranks>(b, s)) break;
    sync_block();  // the step is over
    if ((signal >= 0) | timed) {
      if (signal >= 0 && thread_index() == 0) {
        add_release(a.state + signal, 1);
        if constexpr (of_ranks)
          if (announced) announce_if_last(b.launch(), list[b.position]);
      }
      clock_end_step(b, b.position);
    }
    found = int(kWarp);
    ++b.position, ++b.current;
  }
  if (warp_index() == kBringer) ahead.wait();
  clock_end_block(b);
  // The last block to end resets the counters for the next launch.
  sync_block();
  bool is_last = false;
  if (thread_index() == 0) {
    is_last = add_acquire_release(a.state + a.places.counters + kEnded, 1u) + 1 == block_count();
  }
  if (!sync_block_or(is_last)) return;
  // A launch that was stopped leaves numbers that nobody takes.
  if (load_acquire(a.state + a.places.counters + kAbort) != 0)
    for (int i = int(thread_index()); i < a.places.handed; i += kThreads) remove_mark(b.handed() + i);
  sync_block();
  // It is the last one with sums over ranks, and keeps the abort word (rank_sums.h).
  for (int i = int(thread_index()); i < a.places.counters + kWordsOfALaunch; i += kThreads)
    if (!of_ranks || i != a.places.counters + kAbort) store_relaxed(a.state + i, 0);
  if (a.places.loops > 0) keep_turns(b, go_on);
  if (a.places.chunk > 0 && thread_index() == 0) store_release_in_system(a.state + a.places.counters + kLeft, 1);
}

}  // namespace lamina::kernels::cuda::resident
