// Differences for blocks that form one cluster: counters, weights and rows are in shared memory. `in_cluster` is a compile-time constant,
// so other kernels contain nothing of it.
#pragma once
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

// The inbox: rows that another block hands over. Counters are in this block's shared memory too.
LAMINA_DEVICE float* inbox(const Block& b) { return b.shared + b.arguments.places.inbox_at; }
LAMINA_DEVICE unsigned* words(const Block& b) { return reinterpret_cast<unsigned*>(b.shared + b.arguments.places.words_at); }

template <bool in_cluster>
LAMINA_DEVICE unsigned* counter(const Block& b, int number) {
  if constexpr (in_cluster) {
    const int place = reinterpret_cast<const int*>(b.arguments.program + b.arguments.places.counter_places_at)[number];
    return of_block(words(b) + (place & 0xffff), unsigned(place) >> 16);
  } else {
    return b.arguments.state + number;
  }
}
// Barrier of all blocks of the launch.
template <bool in_cluster>
LAMINA_DEVICE unsigned* arrived(const Block& b) {
  if constexpr (in_cluster)
    return of_block(words(b), 0);
  else
    return b.arguments.state + b.arguments.places.counters + kArrived;
}
template <bool in_cluster>
LAMINA_DEVICE void raise(unsigned* counter, unsigned by) {
  if constexpr (in_cluster)
    add_release_in_cluster(counter, by);
  else
    add_release(counter, by);
}

// The piece of a product's weights that begins with row k. `first`: all threads have synchronised since the previous piece.
template <bool in_cluster>
LAMINA_DEVICE const float* weights(Block& b, const BlockStep& s, int k, bool first) {
  if constexpr (in_cluster)
    if (s.resident >= 0) {
      if (!first) sync_block();
      return b.shared + s.resident + k * padded(s.n);
    }
  return b.take();
}
// The inbox that also gets a product's rows, or null.
template <bool in_cluster>
LAMINA_DEVICE float* next_inbox(const Block& b, const BlockStep& s) {
  if constexpr (in_cluster)
    if (s.hands_to >= 0) return of_block(inbox(b), unsigned(s.hands_to));
  return nullptr;
}

// Copies resident weights from memory. All threads must synchronise before reading them.
LAMINA_DEVICE void bring_resident(const Block& b, int number) {
  const section::BlockResident& r =
      reinterpret_cast<const section::BlockResident*>(b.arguments.program + b.arguments.places.residents_at)[number];
  const float* from = b.data<const float>(r.operand);
  const int leading = padded(r.n);
  for (int i = int(thread_index()); i < r.rows * r.n; i += kThreads)
    b.shared[r.at + i / r.n * leading + i % r.n] = load_shared_between_blocks(from + i);
}

// At the start of a launch, before any block raises a counter or hands rows to this one.
LAMINA_DEVICE void begin_cluster(const Block& b) {
  for (int i = int(thread_index()); i < b.arguments.places.words; i += kThreads) words(b)[i] = 0;
  const int* starts = reinterpret_cast<const int*>(b.arguments.program + b.arguments.places.resident_starts_at) + block_index();
  for (int r = starts[0]; r < starts[1]; ++r) bring_resident(b, r);
  sync_cluster();
}
// After a step that writes resident weights.
LAMINA_DEVICE void renew(const Block& b, const BlockStep& s) {
  if (s.renews < 0) return;
  bring_resident(b, s.renews);
  sync_block();
}

}  // namespace lamina::kernels::cuda::resident
