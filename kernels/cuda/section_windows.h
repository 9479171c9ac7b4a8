// Windows of sums over ranks: where values lie, and their flags. kernels/section/rank_sums.h says why two buffers are enough.
#pragma once
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

using section::BlockRoot;
using section::BlockSum;

// The launch's buffer of a value, in a window.
struct SumBuffer {
  const BlockSum& value;
  const BlockRoot* roots;
  char* const* windows;  // of the ranks
  unsigned launch, buffer;

  LAMINA_DEVICE SumBuffer(const Launch& a, int number)
      : value(reinterpret_cast<const BlockSum*>(a.program + a.places.sums_at)[number]),
        roots(reinterpret_cast<const BlockRoot*>(a.program + a.places.roots_at) + value.first_root),
        windows(a.windows + value.window * value.ranks),
        launch(a.launch),
        buffer(makes(Mistake::has_one_buffer) ? 0 : a.launch & 1) {}
  LAMINA_DEVICE unsigned* flag(int rank) const {
    return reinterpret_cast<unsigned*>(windows[rank]) + value.flag + int(buffer) * value.flags;
  }
  LAMINA_DEVICE float* root(int rank, long long number) const {
    return reinterpret_cast<float*>(windows[rank] + value.at + buffer * value.buffer + number * value.root);
  }
};

// This rank's root of that number: where an update's result goes.
LAMINA_DEVICE float* own_root(const Launch& a, int value, long long number) { return SumBuffer(a, value).root(a.rank, number); }

// By one thread, behind its block's part of a step that announces: the last block sets the flags of its values. The step's record may be
// the next one's already.
LAMINA_CALLED void announce_if_last(const Launch& a, int number) {
  const BlockStep& s = reinterpret_cast<const BlockStep*>(a.program)[number];
  if (!makes(Mistake::shows_early) && load_acquire(a.state + s.signal) != unsigned(s.blocks)) return;
  const int values[] = {s.kind == StepKind::announce ? s.k : -1, s.announces, s.announces2};
  LAMINA_UNROLL
  for (int i = 0; i < 3; ++i)
    if (values[i] >= 0) {
      const SumBuffer sum(a, values[i]);
      store_release_in_system(sum.flag(a.rank), sum.launch);
    }
}

}  // namespace lamina::kernels::cuda::resident
