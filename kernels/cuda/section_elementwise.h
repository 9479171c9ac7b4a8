// Elementwise steps, and codes that the compiler knows: generated sources have them as expressions (kernels/section/compiled_source.h).
#pragma once
#include "kernels/cuda/section_block.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda::resident {

template <class T>
LAMINA_DEVICE T load_element(const char* base, long long i) {
  return load_shared_between_blocks(reinterpret_cast<const T*>(base) + i);
}

// What section_code.h's Code is, of one code. Written::run(in, out, input0, places...) computes one element; its operands are elements of
// matrices that are n wide.
template <class Written>
struct WrittenCode {
  // `given`: input 0 is given, and first_in is input 1's.
  LAMINA_DEVICE WrittenCode(const Block& b, int, int first_in, int first_out, bool given, int n) : n(n) {
    LAMINA_UNROLL
    for (int i = given ? 1 : 0; i < Written::inputs; ++i) in[i] = b.data<const char>(first_in + i - (given ? 1 : 0));
    LAMINA_UNROLL
    for (int i = 0; i < Written::results; ++i) out[i] = b.data<char>(first_out + i);
  }
  const char* in[Written::inputs > 0 ? Written::inputs : 1];
  char* out[Written::results];
  int n;

  LAMINA_DEVICE int outputs() const { return Written::results; }
  LAMINA_DEVICE void element(int row, int column, float input0, bool active) const {
    if (active) Written::run(in, out, input0, (long long)row * n + column, row, column);
  }
};
// Where there is no code, as in an update of weights alone.
struct NoCode {
  LAMINA_DEVICE NoCode(const Block&, int, int, int, bool, int) {}
  LAMINA_DEVICE int outputs() const { return 0; }
  LAMINA_DEVICE void element(int, int, float, bool) const {}
};

// Code: what runs the step's code.
template <class Code>
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
