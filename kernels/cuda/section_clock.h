// Timing of a section's steps: for each position in each block's list, the times spent waiting and working. One thread per block writes to
// its own place in memory and keeps nothing in registers.
#pragma once
#include "kernels/cuda/clock.h"
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

using section::BlockClock;

LAMINA_DEVICE bool clock_runs(const Block& b) { return b.timed; }
// The block's own entry follows those of its positions.
LAMINA_DEVICE BlockClock& clock_at(const Block& b, int place) {
  const int* starts = reinterpret_cast<const int*>(b.launch().program + b.launch().places.starts_at) + block_index();
  return b.launch().clock[starts[0] + int(block_index()) + place];
}
// An atomic without a used result does not stall. A time difference is a subtraction and an addition.
LAMINA_DEVICE void add_to(unsigned long long& sum, unsigned long long v) { atomic_add(&sum, v); }

LAMINA_DEVICE void clock_begin_block(const Block& b) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, b.count);
  const unsigned long long now = nanoseconds();
  if (c.times == 0) c.began = now;  // in the call's first launch
  add_to(c.waited, 0 - now), add_to(c.busy, 0 - cycles());
}
LAMINA_DEVICE void clock_end_block(const Block& b) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, b.count);
  c.ended = nanoseconds();
  add_to(c.waited, c.ended), add_to(c.busy, cycles()), add_to(c.times, 1);
}
LAMINA_DEVICE void clock_begin_wait(const Block& b, int place) {
  if (clock_runs(b)) add_to(clock_at(b, place).waited, 0 - cycles());
}
LAMINA_DEVICE void clock_begin_step(const Block& b, int place) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, place);
  const unsigned long long now = cycles();
  add_to(c.waited, now), add_to(c.busy, 0 - now);
  c.began = nanoseconds();
}
LAMINA_DEVICE void clock_end_step(const Block& b, int place) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, place);
  add_to(c.busy, cycles()), add_to(c.times, 1);
  c.ended = nanoseconds();
}

// By one thread: the chain at the block's position has waited since then.
LAMINA_DEVICE void clock_waited(const Block& b, unsigned long long since) {
  BlockClock& c = clock_at(b, b.position);
  const unsigned long long time = cycles() - since;
  add_to(c.waited, time), add_to(c.busy, 0 - time);
  c.began = nanoseconds();
}
// Of a chain, by one thread: the product at `place` ends, and counts if it ran for all rows and models; the one at `next` begins.
LAMINA_DEVICE void clock_next_product(const Block& b, int place, int next, bool counts) {
  if (b.launch().clock == nullptr) return;
  BlockClock &c = clock_at(b, place), &n = clock_at(b, next);
  const unsigned long long now = cycles(), time = nanoseconds();
  add_to(c.busy, now), add_to(c.times, counts ? 1 : 0);
  c.ended = time;
  if (next == b.position && counts) return;  // the chain's end
  add_to(n.busy, 0 - now);
  n.began = time;
}

}  // namespace lamina::kernels::cuda::resident
