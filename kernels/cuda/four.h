// Four neighbouring floats, read and written as one 16-byte access; two, as one of 8.
#pragma once
#include "kernels/cuda/device.h"

namespace lamina::kernels::cuda {

struct alignas(16) Four {
  float v[4];
};
static_assert(sizeof(Four) == 16);
struct alignas(8) Two {
  float v[2];
};

#if defined(__CUDACC__)
// From shared memory. Loads like this stay in their order, so the compiler cannot put one off to where its value is needed.
LAMINA_DEVICE Four four_in_order(const float* p) {
  Four f;
  asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(f.v[0]), "=f"(f.v[1]), "=f"(f.v[2]), "=f"(f.v[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))));
  return f;
}
// The same of one address for all lanes of the warp: a function of its own, because perf/gpu/cycles.py counts these loads by its lines.
LAMINA_DEVICE Four same_four_in_order(const float* p) {
  Four f;
  asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(f.v[0]), "=f"(f.v[1]), "=f"(f.v[2]), "=f"(f.v[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))));
  return f;
}
LAMINA_DEVICE float one_in_order(const float* p) {
  float f;
  asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(f) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))));
  return f;
}
// Four elements of a column, from rows `stride` apart, likewise.
template <int stride>
LAMINA_DEVICE Four four_of_column_in_order(const float* p) {
  Four f;
  LAMINA_UNROLL
  for (int i = 0; i < 4; ++i) f.v[i] = one_in_order(p + i * stride);
  return f;
}
LAMINA_DEVICE void put_four(float* p, const Four& f) { *reinterpret_cast<float4*>(p) = {f.v[0], f.v[1], f.v[2], f.v[3]}; }
// Past the L1 cache, as load_shared_between_blocks().
LAMINA_DEVICE Two two_shared_between_blocks(const float* p) {
  const float2 f = __ldcg(reinterpret_cast<const float2*>(p));
  return {{f.x, f.y}};
}
LAMINA_DEVICE Two two_in_order(const float* p) {
  Two f;
  asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(f.v[0]), "=f"(f.v[1])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))));
  return f;
}
LAMINA_DEVICE void put_two(float* p, const Two& f) { *reinterpret_cast<float2*>(p) = {f.v[0], f.v[1]}; }
#else
LAMINA_DEVICE Four four(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
LAMINA_DEVICE Four four_in_order(const float* p) { return four(p); }
LAMINA_DEVICE Four same_four_in_order(const float* p) { return four(p); }
LAMINA_DEVICE float one_in_order(const float* p) { return *p; }
template <int stride>
LAMINA_DEVICE Four four_of_column_in_order(const float* p) {
  return {{p[0], p[stride], p[2 * stride], p[3 * stride]}};
}
LAMINA_DEVICE void put_four(float* p, const Four& f) {
  for (int i = 0; i < 4; ++i) p[i] = f.v[i];
}
LAMINA_DEVICE Two two_shared_between_blocks(const float* p) { return {{p[0], p[1]}}; }
LAMINA_DEVICE Two two_in_order(const float* p) { return {{p[0], p[1]}}; }
LAMINA_DEVICE void put_two(float* p, const Two& f) { p[0] = f.v[0], p[1] = f.v[1]; }
#endif

}  // namespace lamina::kernels::cuda
