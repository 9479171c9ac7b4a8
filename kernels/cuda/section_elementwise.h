// Elementwise steps of a section.
#pragma once
#include "kernels/cuda/section_code.h"

namespace lamina::kernels::cuda::resident {

LAMINA_DEVICE void elementwise(Block& b, const BlockStep& s) {
  const Code code(b, s.code, s.first_in, s.first_out, false, s.n);
  long long begin, end;
  if (s.partition == Partition::tiles) {
    const long long size = (long long)s.rows * s.n, part = int(block_index()) - s.first_block;
    begin = size * part / s.blocks, end = size * (part + 1) / s.blocks;
  } else {
    const Rows mine = b.rows_of(s);
    begin = (long long)mine.begin * s.n, end = (long long)mine.end * s.n;
  }
  for (long long first = begin; first < end; first += kThreads) {
    const long long i = first + thread_index();
    const bool active = i < end;
    const int row = active ? int(i / s.n) : 0;
    code.element(row, active ? int(i - (long long)row * s.n) : 0, 0, active);
  }
}

}  // namespace lamina::kernels::cuda::resident
