// device.h for nvcc.
#pragma once
#include "runtime/cuda/kernel_launch.h"

#define LAMINA_KERNEL(...) __global__ void __launch_bounds__(__VA_ARGS__)
#define LAMINA_ARGUMENT const __grid_constant__
#define LAMINA_DEVICE __device__ __forceinline__
#define LAMINA_SHARED(T, name, count) __shared__ __align__(16) T name[count]
#define LAMINA_CALLED inline __device__ __noinline__  // a function of its own: one copy, with registers of its own
#define LAMINA_CALLED_MEMBER __device__ __noinline__
#define LAMINA_UNROLL _Pragma("unroll")
#define LAMINA_PRAGMA(text) _Pragma(#text)
#define LAMINA_UNROLL_BY(times) LAMINA_PRAGMA(unroll times)
#define LAMINA_ROLLED _Pragma("unroll 1")

namespace lamina::kernels::cuda {

LAMINA_DEVICE constexpr bool makes(Mistake) { return false; }
LAMINA_DEVICE unsigned thread_index() { return threadIdx.x; }
LAMINA_DEVICE unsigned block_size() { return blockDim.x; }
LAMINA_DEVICE unsigned block_index() { return blockIdx.x; }
LAMINA_DEVICE unsigned block_index_y() { return blockIdx.y; }
LAMINA_DEVICE unsigned block_count() { return gridDim.x; }
LAMINA_DEVICE unsigned block_count_y() { return gridDim.y; }
LAMINA_DEVICE unsigned lane() { return threadIdx.x & 31u; }
LAMINA_DEVICE unsigned warp_index() { return threadIdx.x >> 5; }

LAMINA_DEVICE void sync_block() { __syncthreads(); }
LAMINA_DEVICE bool sync_block_or(bool v) { return __syncthreads_or(v) != 0; }
LAMINA_DEVICE void sync_warp(unsigned mask = kAllLanes) { __syncwarp(mask); }
template <int barrier, int threads>
LAMINA_DEVICE void sync_some() {  // whole warps
  asm volatile("bar.sync %0, %1;" ::"n"(barrier), "n"(threads) : "memory");
}

template <class T>
LAMINA_DEVICE T shuffle(T v, unsigned from, unsigned mask = kAllLanes) {
  return __shfl_sync(mask, v, int(from));
}
template <class T>
LAMINA_DEVICE T shuffle_up(T v, unsigned by, unsigned mask = kAllLanes) {
  return __shfl_up_sync(mask, v, by);
}
template <class T>
LAMINA_DEVICE T shuffle_down(T v, unsigned by, unsigned mask = kAllLanes) {
  return __shfl_down_sync(mask, v, by);
}
template <class T>
LAMINA_DEVICE T shuffle_xor(T v, unsigned bits, unsigned mask = kAllLanes) {
  return __shfl_xor_sync(mask, v, int(bits));
}
LAMINA_DEVICE unsigned ballot(bool v, unsigned mask = kAllLanes) { return __ballot_sync(mask, v); }
LAMINA_DEVICE bool any(bool v, unsigned mask = kAllLanes) { return __any_sync(mask, v) != 0; }
LAMINA_DEVICE bool all(bool v, unsigned mask = kAllLanes) { return __all_sync(mask, v) != 0; }

template <class T>
LAMINA_DEVICE T atomic_add(T* to, T v) {
  return atomicAdd(to, v);
}
template <class T>
LAMINA_DEVICE T atomic_min(T* to, T v) {
  return atomicMin(to, v);
}
template <class T>
LAMINA_DEVICE T atomic_max(T* to, T v) {
  return atomicMax(to, v);
}
LAMINA_DEVICE unsigned atomic_or(unsigned* to, unsigned v) { return atomicOr(to, v); }
LAMINA_DEVICE unsigned atomic_exchange(unsigned* to, unsigned v) { return atomicExch(to, v); }
template <class T>
LAMINA_DEVICE T atomic_cas(T* to, T expected, T v) {
  return atomicCAS(to, expected, v);
}

LAMINA_DEVICE unsigned load_acquire(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
LAMINA_DEVICE unsigned load_acquire_in_system(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
LAMINA_DEVICE void store_release_in_system(unsigned* p, unsigned v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
LAMINA_DEVICE void store_release(unsigned* p, unsigned v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
LAMINA_DEVICE void store_relaxed(unsigned* p, unsigned v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
LAMINA_DEVICE void add_release(unsigned* p, unsigned v) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
LAMINA_DEVICE unsigned add_acquire_release(unsigned* p, unsigned v) {
  unsigned old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}
// A number that another block waits for, beside a mark that it is there: one access, which orders no others. 0: it is not there.
LAMINA_DEVICE void store_marked(unsigned long long* p, float v) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(p), "l"(1ull << 32 | __float_as_uint(v)) : "memory");
}
LAMINA_DEVICE void remove_mark(unsigned long long* p) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(p), "l"(0ull) : "memory");
}
LAMINA_DEVICE unsigned long long load_marked(const unsigned long long* p) {
  unsigned long long v;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
LAMINA_DEVICE bool has_mark(unsigned long long v) { return unsigned(v >> 32) != 0; }
LAMINA_DEVICE float without_mark(unsigned long long v) { return __uint_as_float(unsigned(v)); }
LAMINA_DEVICE unsigned load_acquire_in_block(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))) : "memory");
  return v;
}
LAMINA_DEVICE unsigned long long load_acquire_in_block(const unsigned long long* p) {
  unsigned long long v;
  asm volatile("ld.acquire.cta.shared.u64 %0, [%1];" : "=l"(v) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))) : "memory");
  return v;
}
LAMINA_DEVICE void store_release_in_block(unsigned* p, unsigned v) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(p))), "r"(v) : "memory");
}
LAMINA_DEVICE void store_release_in_block(unsigned long long* p, unsigned long long v) {
  asm volatile("st.release.cta.shared.u64 [%0], %1;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(p))), "l"(v) : "memory");
}
LAMINA_DEVICE void pause() { __nanosleep(32); }
template <class T>
LAMINA_DEVICE T load_shared_between_blocks(const T* p) {
  return __ldcg(p);
}

// Zeros if it is not there; then nothing is read.
template <int bytes>
LAMINA_DEVICE void copy_async(void* to_shared, const void* from, bool is_there = true) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
  const int read = is_there ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes), "r"(read) : "memory");
}
LAMINA_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int but>
LAMINA_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(but) : "memory");
}

LAMINA_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
LAMINA_DEVICE double fma(double a, double b, double c) { return __fma_rn(a, b, c); }

template <class T>
LAMINA_DEVICE T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char lamina_dynamic_shared[];
  return reinterpret_cast<T*>(lamina_dynamic_shared);
}

template <auto kernel, class... A>
void launch(Stream& stream, const LaunchShape& shape, A... arguments) {
  [&]<class... P>(void (*)(P...)) {
    // As the kernel's own parameter types, because cudart copies their bytes.
    auto run = [&](P... parameters) {
      void* pointers[] = {&parameters..., nullptr};
      lamina::cuda::launch_kernel(stream, shape, reinterpret_cast<const void*>(kernel), pointers);
    };
    run(arguments...);
  }(kernel);
}

}  // namespace lamina::kernels::cuda
