// A thread's mode in which no float is subnormal. For files compiled once per instruction set, as simd.h.
#pragma once
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace lamina::kernels::cpu::LAMINA_ISA {

// While it lives, subnormal floats, those below 2^-126, count as 0 and results become 0 in place of them. An x86 takes a hundred cycles for
// a multiply-add with one, and deep nets are full of them where values or gradients vanish. Other processors do not mind, and keep them.
class SubnormalsAreZero {
#if defined(__SSE2__)
 public:
  SubnormalsAreZero() { _mm_setcsr(before_ | 0x8040); }  // flush to zero, denormals are zero
  ~SubnormalsAreZero() { _mm_setcsr(before_); }
  SubnormalsAreZero(const SubnormalsAreZero&) = delete;
  SubnormalsAreZero& operator=(const SubnormalsAreZero&) = delete;

 private:
  const unsigned before_ = _mm_getcsr();
#endif
};

}  // namespace lamina::kernels::cpu::LAMINA_ISA
