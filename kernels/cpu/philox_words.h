// Philox for many blocks at once. The AVX2 functions give the same bits as kernels/shared/philox.h, eight blocks at a time. A register
// holds four blocks with a 64-bit lane per word, because the product of two 32-bit numbers has 64 bits.
#pragma once
#include <cstdint>

#include "kernels/random.h"
#include "kernels/shared/philox.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define LAMINA_PHILOX_AVX2 1
#endif

namespace lamina::kernels::cpu {

#ifdef LAMINA_PHILOX_AVX2
bool philox_uses_avx2();  // if the machine has it and LAMINA_CPU allows it
// `count` is a multiple of 32, `first` of 4.
void dropout_avx2(const float* x, const int64_t* state, uint32_t drop, float scale, float* y, int64_t first, int64_t count);
#endif

}  // namespace lamina::kernels::cpu
