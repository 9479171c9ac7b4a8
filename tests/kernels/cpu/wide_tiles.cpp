// The tiles for 64-byte vectors and 32 registers, compiled from the same source as portable vectors, which run on every machine.
#define LAMINA_ISA wide_tiles
#define LAMINA_SIMD_BYTES 64
#undef __AVX2__
#undef __AVX512F__
#include "kernels/cpu/dense_isa.cpp"
