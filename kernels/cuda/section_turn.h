// Turns: the loops and branches between runs of steps. At the end of a run every block makes the same decision about what comes next. The
// decision depends on memory that is read after a barrier of all blocks and not written before the next one.
#pragma once
#include "kernels/cuda/clock.h"
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

using section::BlockTurn;
using section::Turn;

template <class T>
LAMINA_DEVICE const T* table_at(const Launch& a, int bytes) {
  return reinterpret_cast<const T*>(a.program + bytes);
}

// At the start of a launch.
LAMINA_DEVICE void begin_turns(Block& b) {
  Turns& t = b.turns();
  unsigned* words = reinterpret_cast<unsigned*>(&t);
  for (int i = int(thread_index()); i < int(sizeof(Turns) / 4); i += kThreads) words[i] = 0;
  sync_block();
  if (b.launch().goes_on) {
    const unsigned* kept = b.launch().state + b.launch().places.counters + kIterations;
    for (int l = int(thread_index()); l < b.launch().places.loops; l += kThreads) {
      const unsigned* k = kept + 4 * l;
      t.iteration[l] = (long long)(load_acquire(k) | (unsigned long long)load_acquire(k + 1) << 32);
      t.count[l] = (long long)(load_acquire(k + 2) | (unsigned long long)load_acquire(k + 3) << 32);
    }
  } else if (thread_index() == 0) {
    t.begun[0] = 1;
  }
  if (b.launch().most_nanoseconds != 0 && block_index() == 0 && thread_index() == 0) b.began = nanoseconds();
  sync_block();
}
// Saves the position for the launch that continues from here; 0: none does.
LAMINA_DEVICE void keep_turns(const Block& b, unsigned go_on) {
  const Turns& t = b.turns();
  unsigned* words = b.launch().state + b.launch().places.counters;
  if (thread_index() == 0) store_release(words + kGoOn, go_on);
  for (int l = int(thread_index()); go_on != 0 && l < b.launch().places.loops; l += kThreads) {
    unsigned* k = words + kIterations + 4 * l;
    store_release(k, unsigned(t.iteration[l])), store_release(k + 1, unsigned((unsigned long long)t.iteration[l] >> 32));
    store_release(k + 2, unsigned(t.count[l])), store_release(k + 3, unsigned((unsigned long long)t.count[l] >> 32));
  }
}

// Waits until the host has copied the chunk that begins with this slice. False: the launch should leave now. The host writes while the
// kernel runs: its data is read after a system-scope acquire, and other blocks see it after the barrier at which this one then arrives.
LAMINA_DEVICE bool wait_for_chunk(const Block& b, long long slice) {
  const Launch& a = b.launch();
  const unsigned* words = a.state + a.places.counters;
  while (load_acquire_in_system(words + kCome) <= unsigned(slice)) {
    if (load_acquire(words + kAbort) != 0) return true;  // the barrier detects it too
    if (nanoseconds() - b.began > a.most_nanoseconds) return false;
    pause();
  }
  return true;
}

// A barrier of all blocks: after it, all writes before it are visible. False when the launch should stop. With `may_leave`, the first block
// checks the clock and Turns::leaves says whether the launch has run long enough; with `slice`, it first waits for that slice's chunk. The
// leave flag shares the barrier's word, so every block sees it at the same barrier.
LAMINA_DEVICE bool meet(Block& b, bool may_leave, long long slice = 0) {
  const Launch& a = b.launch();
  const unsigned all = ++b.met * block_count();  // below 2^31: long launches leave, and a barrier takes about a microsecond
  bool stopped = false;
  sync_block();
  if (thread_index() == 0) {
    bool leaves = slice > 0 && block_index() == 0 && !wait_for_chunk(b, slice);
    leaves = leaves || (may_leave && block_index() == 0 && a.most_nanoseconds != 0 && nanoseconds() - b.began > a.most_nanoseconds);
    unsigned* arrived = a.state + a.places.counters + kArrived;
    unsigned seen = leaves ? all | kLeaves : all;
    if (block_count() > 1) {
      add_release(arrived, leaves ? 1 | kLeaves : 1);
      stopped = !poll(b, arrived, [&](unsigned value) { return ((seen = value) & ~kLeaves) >= all; });
    }
    b.turns().leaves = !stopped && seen == (all | kLeaves);
  }
  return !sync_block_or(stopped);
}

// The slice of the next iteration if it begins a chunk from the host, else 0.
LAMINA_DEVICE long long first_of_chunk(const Launch& a, const Turns& t, const BlockTurn& turn) {
  if (!turn.infeed) return 0;
  const long long next = t.iteration[turn.loop] + 1;
  return next < t.count[turn.loop] && unsigned(next) % unsigned(a.places.chunk) == 0 ? next : 0;
}

// Takes a turn. `first`: the launch continues here, after the previous one's barrier. False: stop; Turns::leaves: stop for now.
LAMINA_DEVICE bool take_turn(Block& b, const BlockStep& s, bool first) {
  const Launch& a = b.launch();
  const BlockTurn& turn = table_at<BlockTurn>(a, a.places.turns_at)[s.code];
  Turns& t = b.turns();
  if (!first) {
    if (turn.barrier ? !meet(b, turn.turn == Turn::again, first_of_chunk(a, t, turn)) : (sync_block(), false)) return false;
    if (t.leaves) return false;
  }
  const int l = turn.loop;
  if (thread_index() == 0) {
    bool jumps = false;
    switch (turn.turn) {
      case Turn::scan: {
        long long count = turn.limit;
        if (turn.operand >= 0) {
          const long long wanted = load_shared_between_blocks(b.data<const long long>(b.all_operands()[turn.operand]));
          count = wanted < 0 ? 0 : wanted < count ? wanted : count;
        }
        t.iteration[l] = 0, t.count[l] = count;
        jumps = count == 0;
        break;
      }
      case Turn::loop: t.iteration[l] = 0, t.count[l] = turn.limit; break;
      case Turn::test:
        jumps =
            t.iteration[l] == t.count[l] || load_shared_between_blocks(b.data<const unsigned char>(b.all_operands()[turn.operand])) == 0;
        if (jumps && block_index() == 0) *b.data<long long>(b.all_operands()[turn.result]) = t.iteration[l];
        break;
      case Turn::again:
        jumps = ++t.iteration[l] < t.count[l] || turn.always;
        if (turn.infeed && block_index() == 0 && unsigned(t.iteration[l]) % unsigned(a.places.chunk) == 0)
          store_release_in_system(a.state + a.places.counters + kTaken, unsigned(t.iteration[l]));
        break;
      case Turn::branch: jumps = load_shared_between_blocks(b.data<const unsigned char>(b.all_operands()[turn.operand])) == 0; break;
      case Turn::leave: jumps = true; break;
      case Turn::meet: break;
    }
    t.jumps = jumps;
    const int run = jumps ? turn.target_run : s.code + 1;
    if (run >= 0) ++t.begun[run];
  }
  sync_block();
  const bool jumps = t.jumps != 0;
  if (turn.tails > 0) {
    const section::BlockTail* tails = table_at<section::BlockTail>(a, a.places.tails_at) + turn.first_tail;
    for (int i = 0; i < turn.tails; ++i) {
      char* to = b.data<char>(b.all_operands()[tails[i].operand]);
      const long long begin = t.count[l] * tails[i].bytes, end = turn.limit * tails[i].bytes;
      const long long stride = (long long)kThreads * block_count(), at = (long long)block_index() * kThreads + thread_index();
      if (tails[i].bytes % 4 == 0) {
        for (long long k = begin + 4 * at; k < end; k += 4 * stride) *reinterpret_cast<unsigned*>(to + k) = 0;
      } else {
        for (long long k = begin + at; k < end; k += stride) to[k] = 0;
      }
    }
    sync_block();
  }
  if (turn.turn == Turn::scan || turn.turn == Turn::again) {
    const section::BlockMover* movers = table_at<section::BlockMover>(a, a.places.movers_at);
    for (int m = int(thread_index()); m < a.places.movers; m += kThreads) {
      long long bytes = 0;
      for (int at = m; at > 0; at = movers[at].parent) {
        const int loop = movers[at].loop;
        const long long slice = movers[at].reverse ? t.count[loop] - 1 - t.iteration[loop] : t.iteration[loop];
        bytes += movers[at].slice * (movers[at].ring > 0 ? unsigned(slice) % unsigned(movers[at].ring) : slice);
      }
      t.moved[m] = bytes;
    }
  }
  b.position = jumps ? table_at<int>(a, a.places.targets_at)[s.code * int(block_count()) + int(block_index())] : b.position + 1;
  sync_block();
  return true;
}

}  // namespace lamina::kernels::cuda::resident
