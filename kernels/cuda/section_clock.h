// The clock of a section's steps: for each place in each block's list, how long the block waited there and how long it was busy. One thread of a block
// writes, to a place in memory that is its own, and keeps nothing in registers: a difference of two times is written as a subtraction and an addition.
#pragma once
#include "kernels/cuda/clock.h"
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

using section::BlockClock;

LAMINA_DEVICE bool clock_runs(const Block& b) { return b.arguments.clock != nullptr && thread_index() == 0; }
// Of the block, behind those of its places.
LAMINA_DEVICE BlockClock& clock_at(const Block& b, int place) {
  const int* starts = reinterpret_cast<const int*>(b.arguments.program + b.arguments.places.starts_at) + block_index();
  return b.arguments.clock[starts[0] + int(block_index()) + place];
}
LAMINA_DEVICE void clock_begin_block(const Block& b) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, b.count);
  c.began = nanoseconds();
  c.waited -= c.began, c.busy -= cycles();
}
LAMINA_DEVICE void clock_end_block(const Block& b) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, b.count);
  c.ended = nanoseconds();
  c.waited += c.ended, c.busy += cycles(), ++c.times;
}
LAMINA_DEVICE void clock_begin_wait(const Block& b) {
  if (clock_runs(b)) clock_at(b, b.position).waited -= cycles();
}
LAMINA_DEVICE void clock_begin_step(const Block& b) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, b.position);
  const unsigned long long now = cycles();
  c.waited += now, c.busy -= now, c.began = nanoseconds();
}
LAMINA_DEVICE void clock_end_step(const Block& b) {
  if (!clock_runs(b)) return;
  BlockClock& c = clock_at(b, b.position);
  c.busy += cycles(), c.ended = nanoseconds(), ++c.times;
}

}  // namespace lamina::kernels::cuda::resident
