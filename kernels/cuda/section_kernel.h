// A block's loop over its list of steps.
#pragma once
#include "kernels/cuda/section_clock.h"
#include "kernels/cuda/section_interpreter.h"
#include "kernels/cuda/section_turn.h"

namespace lamina::kernels::cuda::resident {

// Each thread polls one counter. False when the launch should stop.
LAMINA_DEVICE bool wait_for_others(const Block& b, const BlockStep& s, int number) {
  const Arguments& a = b.arguments;
  const unsigned times = b.turns().begun[s.run];  // counters keep counting when a run repeats
  const section::BlockWait* waits = reinterpret_cast<const section::BlockWait*>(a.program + a.places.waits_at) + s.first_wait;
  bool stopped = false;
  for (int w = int(thread_index()); w < s.waits; w += kThreads) {
    const unsigned* counter = a.state + waits[w].counter;
    if (!poll(a, counter, number, [&](unsigned value) { return int(value - unsigned(waits[w].until) * times) >= 0; })) stopped = true;
  }
  return !sync_block_or(stopped);
}

LAMINA_DEVICE void run_block(const Arguments& a) {
  float* shared = dynamic_shared<float>();
  const int* starts = reinterpret_cast<const int*>(a.program + a.places.starts_at);
  const int begin = starts[block_index()], count = starts[block_index() + 1] - begin;
  const int* list = reinterpret_cast<const int*>(a.program + a.places.lists_at) + begin;
  for (int i = int(thread_index()); i < least(count, kCachedSteps) * kStepFloats; i += kThreads) {
    const int step = i / kStepFloats, word = i - step * kStepFloats;
    reinterpret_cast<unsigned*>(shared + kStepsAt)[i] = reinterpret_cast<const unsigned*>(a.program + list[step] * sizeof(BlockStep))[word];
  }
  sync_block();
  Block b(a, shared, list, count);
  clock_begin_block(b);
  begin_turns(b);
  bool first = a.goes_on != 0;
  if (first) {
    const int from = int(load_acquire(a.state + a.places.counters + kGoOn)) - 1;
    while (list[b.position] != from) ++b.position;
  } else {
    b.ask();
  }
  unsigned go_on = 0;
  while (b.position < count) {
    const BlockStep& s = b.step(b.position);
    const int number = list[b.position];
    if (s.kind == StepKind::loop) {
      const int place = b.position;
      clock_begin_wait(b, place);
      const bool goes_on = take_turn(b, s, number, first);
      clock_begin_step(b, place), clock_end_step(b, place);
      if (!goes_on) {
        go_on = b.turns().leaves ? unsigned(number) + 1 : 0;
        break;
      }
      first = false;
      continue;
    }
    clock_begin_wait(b, b.position);
    if (s.waits > 0 && !wait_for_others(b, s, number)) break;
    clock_begin_step(b, b.position);
    b.ask();
    if (!run_step(b, s)) break;
    b.sync();
    if (s.signal >= 0 && thread_index() == 0) add_release(a.state + s.signal, 1);
    clock_end_step(b, b.position);
    ++b.position;
  }
  wait_copies<0>();
  clock_end_block(b);
  // The last block to end resets the counters for the next launch.
  sync_block();
  if (thread_index() == 0) {
    fence_device();
    b.turns().ended = atomic_add(a.state + a.places.counters + kEnded, 1u);
  }
  sync_block();
  if (b.turns().ended + 1 != block_count()) return;
  for (int i = int(thread_index()); i < a.places.counters + kWordsOfALaunch; i += kThreads) store_release(a.state + i, 0);
  if (a.places.loops > 0) keep_turns(b, go_on);
  if (a.places.chunk > 0 && thread_index() == 0) store_release_to_host(a.state + a.places.counters + kLeft, 1);
}

}  // namespace lamina::kernels::cuda::resident
