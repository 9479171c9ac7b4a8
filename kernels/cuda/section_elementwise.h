// Elementwise steps of a section.
#pragma once
#include "kernels/cuda/section_code.h"

namespace lamina::kernels::cuda::resident {

LAMINA_DEVICE void elementwise(Block& b, const BlockStep& s) {
  const Code code(b, s.code, s.first_in, s.first_out, false, s.n, s.known);
  code.bring();
  long long begin, end;
  if (s.partition == Partition::tiles) {
    const auto mine = section::share((long long)s.rows * s.n, int(block_index()) - s.first_block, s.blocks);
    begin = mine.begin, end = mine.end;
  } else {
    const Rows mine = b.rows_of(s);
    begin = (long long)mine.begin * s.n, end = (long long)mine.end * s.n;
  }
  for (long long first = begin; first < end; first += kElements * kThreads) {
    const long long i = first + thread_index(), left = (end - i + kThreads - 1) / kThreads;
    code.elements(i, kThreads, left < kElements ? int(left) : kElements, Four{});
  }
}

}  // namespace lamina::kernels::cuda::resident
