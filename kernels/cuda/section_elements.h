// What a thread of an elementwise step has at once: elements on their way between memory and a program's registers.
#pragma once
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

// What a thread computes at once: the cost of reading an instruction is shared, and loads wait together.
inline constexpr int kElements = 4;

// Elements at these places of an operand to registers, `stride` words apart. T: of the operand.
template <class T, class Word>
LAMINA_DEVICE void load_elements(const char* from, const long long (&places)[kElements], Word* to, int stride) {
  T v[kElements];
  LAMINA_UNROLL
  for (int e = 0; e < kElements; ++e) v[e] = load_shared_between_blocks(reinterpret_cast<const T*>(from) + places[e]);
  LAMINA_UNROLL
  for (int e = 0; e < kElements; ++e) to[e * stride] = Word(v[e]);
}

// Registers to elements first, first + step, ... of a result: `count` of them.
template <class T, class Word>
LAMINA_DEVICE void store_elements(char* to, const Word* from, int stride, long long first, long long step, int count) {
  Word v[kElements];
  LAMINA_UNROLL
  for (int e = 0; e < kElements; ++e) v[e] = from[e * stride];
  LAMINA_UNROLL
  for (int e = 0; e < kElements; ++e)
    if (e < count) reinterpret_cast<T*>(to)[first + e * step] = T(v[e]);
}

// An operand of an instruction: a register, or a constant.
template <class Word>
struct Source {
  const Word* at;  // null: a constant
  Word constant;
  LAMINA_DEVICE Word get(int e, int stride) const { return at ? at[e * stride] : constant; }
};

}  // namespace lamina::kernels::cuda::resident
