#pragma once
#include "kernels/cuda/clock.h"
#include "tests/cuda/wire.h"

namespace lamina::kernels::cuda {

// One block, which needs few registers and no shared memory: it runs beside a block of the step.
LAMINA_KERNEL(kWireThreads) wire(WireLaunch w) {
  constexpr int most = kMostWireValues / kWireThreads;
  constexpr unsigned long long shown = ~0ull;
  unsigned long long announced[most];  // when it was seen; 0: not yet
  int left = 0;
  LAMINA_UNROLL
  for (int i = 0; i < most; ++i) {
    announced[i] = int(thread_index()) + i * kWireThreads < w.values ? 0 : shown;
    if (announced[i] == 0) ++left;
  }
  for (const unsigned long long begun = nanoseconds(); left > 0;) {
    const unsigned long long now = nanoseconds();
    if (now - begun > w.most_nanoseconds) {
      atomic_add(w.missing, unsigned(left));
      store_release_in_system(reinterpret_cast<unsigned*>(w.windows[w.rank]), 1);  // the rank's launch ends, too
      return;
    }
    LAMINA_UNROLL
    for (int i = 0; i < most; ++i) {
      if (announced[i] == shown) continue;
      const section::BlockSum& sum = w.sums[int(thread_index()) + i * kWireThreads];
      const int word = sum.flag + int(w.launch & 1) * sum.flags;
      char* const* windows = w.windows + sum.window * sum.ranks;
      if (announced[i] == 0 && load_acquire_in_system(reinterpret_cast<const unsigned*>(windows[w.rank]) + word) == w.launch)
        announced[i] = now;
      if (announced[i] == 0 || now - announced[i] < w.nanoseconds) continue;
      for (int rank = 0; rank < sum.ranks; ++rank)
        if (rank != w.rank) store_release_in_system(reinterpret_cast<unsigned*>(windows[rank]) + word, w.launch);
      announced[i] = shown;
      --left;
    }
    pause();
  }
}

}  // namespace lamina::kernels::cuda
