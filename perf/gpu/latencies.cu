// Measures latencies and rates inside one multiprocessor and between two, which decide between designs of resident kernels. Prints JSON.
// Cycles are of clock64; microseconds between multiprocessors are of %globaltimer or of events; minimum of several runs. Needs nothing else
// of Lamina:
//   nvcc -O3 -std=c++17 -arch=sm_90a -o latencies perf/gpu/latencies.cu
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                              \
  do {                                                                                           \
    const cudaError_t e = (call);                                                                \
    if (e != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "latencies.cu:%d: %s: %s\n", __LINE__, #call, cudaGetErrorString(e)); \
      std::exit(1);                                                                              \
    }                                                                                            \
  } while (0)

#define HOPPER (__CUDA_ARCH__ >= 900)

__device__ unsigned load_acquire(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ void store_release(unsigned* p, unsigned v) { asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ void add_release(unsigned* p) { asm volatile("red.release.gpu.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
__device__ unsigned long long nanoseconds() {
  unsigned long long v;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v));
  return v;
}

// --- 1. bytes from the L2 cache to one multiprocessor, in pieces of 16 KB, `deep` of them in flight ---
constexpr int kPiece = 16384;
__global__ void stream_pieces(const char* from, int pieces, int deep, long long* cycles) {
  extern __shared__ __align__(128) char memory[];
  const int t = int(threadIdx.x), threads = int(blockDim.x);
  const auto copy = [&](int piece) {
    char* to = memory + piece % deep * kPiece;
    for (int i = t * 16; i < kPiece; i += threads * 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + i)), "l"(from + size_t(piece) * kPiece + i)
                   : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int p = 0; p < deep - 1; ++p) copy(p);
  __syncthreads();
  const long long start = clock64();
  for (int p = 0; p < pieces; ++p) {
    if (p + deep - 1 < pieces)
      copy(p + deep - 1);
    else
      asm volatile("cp.async.commit_group;" ::: "memory");
    if (deep == 1)
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    else if (deep == 2)
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    else if (deep == 4)
      asm volatile("cp.async.wait_group 3;" ::: "memory");
    else
      asm volatile("cp.async.wait_group 7;" ::: "memory");
    __syncthreads();
  }
  if (t == 0) *cycles = clock64() - start;
}

// Each lane of a warp copies whole rows, which lie `padding` bytes apart in shared memory.
template <int row, int padding>
__global__ void stream_bulk(const char* from, int pieces, int deep, long long* cycles) {
#if HOPPER
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(8) unsigned long long full[8];
  if (threadIdx.x == 0)
    for (int i = 0; i < deep; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[i])) : "memory");
  __syncthreads();
  constexpr int rows = kPiece / row;
  const auto copy = [&](int piece) {
    const unsigned bar = shared_address(&full[piece % deep]);
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(kPiece) : "memory");
    __syncwarp();
    for (int i = int(threadIdx.x); i < rows; i += 32)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       shared_address(memory + (piece % deep * rows + i) * (row + padding))),
                   "l"(from + size_t(piece) * kPiece + i * row), "r"(row), "r"(bar)
                   : "memory");
  };
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncwarp();
  const long long start = clock64();
  for (int p = 0; p < deep; ++p) copy(p);
  for (int p = 0; p < pieces; ++p) {
    const unsigned bar = shared_address(&full[p % deep]), phase = unsigned(p / deep) & 1;
    unsigned done = 0;
    while (!done)
      asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2; selp.u32 %0, 1, 0, q; }"
                   : "=r"(done)
                   : "r"(bar), "r"(phase)
                   : "memory");
    __syncwarp();
    if (p + deep < pieces) copy(p + deep);
  }
  if (threadIdx.x == 0) *cycles = clock64() - start;
#else
  if (threadIdx.x == 0) *cycles = -1;
#endif
}

// --- 2. barriers of a block, of a pair of warps, and of some of a block's warps ---
__global__ void block_barriers(int rounds, long long* cycles) {
  __syncthreads();
  const long long start = clock64();
  for (int i = 0; i < rounds; ++i) __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}
__global__ void pair_barriers(int rounds, long long* cycles) {
  const int pair = int(threadIdx.x) / 64 + 1;
  __syncthreads();
  const long long start = clock64();
  for (int i = 0; i < rounds; ++i) asm volatile("bar.sync %0, 64;" ::"r"(pair) : "memory");
  if (threadIdx.x == 0) *cycles = clock64() - start;
}
// Of `warps` warps beside others that take no part, as a chain of layers has them.
__global__ void named_barriers(int rounds, int warps, long long* cycles) {
  __syncthreads();
  if (int(threadIdx.x) >= warps * 32) return;
  const long long start = clock64();
  for (int i = 0; i < rounds; ++i) asm volatile("bar.sync 1, %0;" ::"r"(warps * 32) : "memory");
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// --- 3. 16-byte loads of shared memory: all lanes of a warp from one address, or each from its own ---
template <bool one_address>
__global__ void wide_loads(int rounds, float* out, long long* cycles) {
  __shared__ __align__(16) float memory[4096];
  for (int i = int(threadIdx.x); i < 4096; i += int(blockDim.x)) memory[i] = 0;
  __syncthreads();
  const unsigned from = shared_address(memory) + (one_address ? 0 : 16 * (threadIdx.x % 32));
  float sum = 0;
  const long long start = clock64();
  for (int i = 0; i < rounds; ++i) {
    float v[8][4];
#pragma unroll
    for (int k = 0; k < 8; ++k)
      asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v[k][0]), "=f"(v[k][1]), "=f"(v[k][2]), "=f"(v[k][3])
                   : "r"(from + 512 * k));
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += v[k][0] + v[k][3];
  }
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
  out[threadIdx.x] = sum;
}

// --- 4. a store that a fence makes visible to other blocks before the next instruction ---
__global__ void fences(int rounds, float* out, long long* cycles) {
  const long long start = clock64();
  for (int i = 0; i < rounds; ++i) {
    out[threadIdx.x] = float(i);
    __threadfence();
  }
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// --- 5. a word between two blocks through the L2 cache, and a barrier of all blocks ---
__global__ void flag_rounds(unsigned* flags, int rounds, unsigned long long* ns) {
  if (threadIdx.x != 0) return;
  unsigned *ping = flags, *pong = flags + 32;
  if (blockIdx.x == 0) {
    const unsigned long long start = nanoseconds();
    for (int r = 1; r <= rounds; ++r) {
      store_release(ping, unsigned(r));
      while (load_acquire(pong) != unsigned(r)) {
      }
    }
    *ns = nanoseconds() - start;
  } else if (blockIdx.x == gridDim.x - 1) {
    for (int r = 1; r <= rounds; ++r) {
      while (load_acquire(ping) != unsigned(r)) {
      }
      store_release(pong, unsigned(r));
    }
  }
}
__global__ void grid_barriers(unsigned* word, int rounds, unsigned long long* ns) {
  const unsigned long long start = nanoseconds();
  for (int r = 1; r <= rounds; ++r) {
    __syncthreads();
    if (threadIdx.x == 0) {
      add_release(word);
      while (load_acquire(word) < unsigned(r) * gridDim.x) {
      }
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *ns = nanoseconds() - start;
}

// --- 6. nodes of a graph ---
__global__ void tiny(float* x) {
  if (threadIdx.x == 0) *x += 1;
}

// Two rows of 64 numbers handed from block to block and back: as the section kernel does (plain stores, then a counter with release), or
// each beside its round in one store of 8 bytes, which needs no fence.
template <bool in_pairs>
__global__ void hand_over(int rounds, float* rows, unsigned* counters, long long* cycles, float* out) {
  __shared__ float shared[128];
  const int t = int(threadIdx.x);
  float x = float(t);
  const long long start = clock64();
  for (int r = 0; r < rounds; ++r) {
    float* const there = rows + r % 2 * 1024;
    unsigned* const counter = counters + r % 2 * 32;
    if (r % 2 == int(blockIdx.x)) {
      if constexpr (in_pairs) {
        asm volatile("st.relaxed.gpu.v2.f32 [%0], {%1, %2};" ::"l"(there + 2 * t), "f"(x), "f"(__uint_as_float(unsigned(r + 1)))
                     : "memory");
      } else {
        there[t] = x;
        __syncthreads();
        if (t == 0) add_release(counter);
      }
    } else {
      if constexpr (in_pairs) {
        float round;
        do {
          asm volatile("ld.relaxed.gpu.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(round) : "l"(there + 2 * t) : "memory");
        } while (__float_as_uint(round) != unsigned(r + 1));
      } else {
        while (t == 0 && load_acquire(counter) < unsigned(r / 2 + 1)) {
        }
        __syncthreads();
        x = __ldcg(there + t);
      }
      shared[t] = x;
      __syncthreads();
      x = shared[t ^ 1];
    }
  }
  if (t == 0 && blockIdx.x == 0) *cycles = clock64() - start;
  out[t] = x;
}

// --- 7. a chain of layers of 64 on two rows: four warps multiply, from rows of weights in shared memory, others bring these from the L2
// cache meanwhile. Then as the section kernel does it (kernels/cuda/section_chain.h) ---
enum class Bring { nothing, by_async_copies, by_bulk_copies };
__device__ float4 four_in_order(const float* p) {
  float4 f;
  asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w) : "r"(shared_address(p)));
  return f;
}
__device__ float one_in_order(const float* p) {
  float f;
  asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(f) : "r"(shared_address(p)));
  return f;
}
// By one of 64 threads: a layer's weights, in rows `leading` apart.
template <int leading>
__device__ void copy_layer(float* to, const float* from, int thread) {
#pragma unroll
  for (int i = 0; i < 16; ++i)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + (thread / 16 + 4 * i) * leading + thread % 16 * 4)),
                 "l"(from + 4 * thread + 256 * i)
                 : "memory");
}
template <bool gradient, Bring how>
__global__ void chain(const float* weights, int layers, float* out, long long* cycles) {
  constexpr int leading = 68, stage = 64 * leading, stages = 4, compute = 128, fetch = how == Bring::by_async_copies ? 64 : 32;
  extern __shared__ __align__(128) float ring[];
  __shared__ __align__(16) float rows[2][2][64];
  [[maybe_unused]] __shared__ __align__(8) unsigned long long full[stages];
  const int t = int(threadIdx.x);
  for (int i = t; i < stages * stage; i += int(blockDim.x)) ring[i] = 0;
  if (t < 128) rows[0][t / 64][t % 64] = 1.0f / float(1 + t);
#if HOPPER
  if (t < stages) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[t])) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  __syncthreads();
  const auto meet = [] { asm volatile("bar.sync 1, %0;" ::"n"(compute + fetch) : "memory"); };
  const long long start = clock64();
  if (t < compute) {
    const int column = t % 64, row = t / 64;
    meet();
    for (int l = 0; l < layers; ++l) {
      constexpr int ahead = 3;
      const float *w = ring + l % stages * stage, *x = rows[l % 2][row];
      float4 a[ahead + 1], b[ahead + 1];
      const auto load = [&](int q) {
        a[q % (ahead + 1)] = four_in_order(x + 4 * q);
        b[q % (ahead + 1)] =
            gradient ? four_in_order(w + column * leading + 4 * q)
                     : float4{one_in_order(w + 4 * q * leading + column), one_in_order(w + (4 * q + 1) * leading + column),
                              one_in_order(w + (4 * q + 2) * leading + column), one_in_order(w + (4 * q + 3) * leading + column)};
      };
      float sum = 0;
#pragma unroll
      for (int q = 0; q < ahead; ++q) load(q);
#pragma unroll
      for (int q = 0; q < 16; ++q) {
        if (q + ahead < 16) load(q + ahead);
        const float4 u = a[q % (ahead + 1)], v = b[q % (ahead + 1)];
        sum = fmaf(u.w, v.w, fmaf(u.z, v.z, fmaf(u.y, v.y, fmaf(u.x, v.x, sum))));
      }
      rows[(l + 1) % 2][row][column] = fmaxf(sum, 0.0f);
      meet();
    }
  } else if (t < compute + fetch) {
    const int f = t - compute;
    const auto bring = [&](int l) {
      const float* from = weights + size_t(l) * 64 * 64;
      float* to = ring + l % stages * stage;
      if constexpr (how == Bring::by_async_copies) {
        if (l < layers) copy_layer<leading>(to, from, f);
        asm volatile("cp.async.commit_group;" ::: "memory");
      }
#if HOPPER
      if constexpr (how == Bring::by_bulk_copies) {
        const unsigned bar = shared_address(&full[l % stages]);
        if (l < layers && f == 0)
          asm volatile(
              "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%3], %2;\n"
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
              "l"(from), "r"(kPiece), "r"(bar)
              : "memory");
      }
#endif
    };
    for (int l = 0; l < stages - 1; ++l) bring(l);
    for (int l = 0; l < layers; ++l) {
      if constexpr (how == Bring::by_async_copies) asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
#if HOPPER
      unsigned done = how != Bring::by_bulk_copies;
      while (!done)
        asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2; selp.u32 %0, 1, 0, q; }"
                     : "=r"(done)
                     : "r"(shared_address(&full[l % stages])), "r"(unsigned(l / stages) & 1)
                     : "memory");
      __syncwarp();
#endif
      meet();
      bring(l + stages - 1);
    }
    meet();
  }
  if (t == 0) *cycles = clock64() - start;
  __syncthreads();
  if (t < 64) out[t] = rows[layers % 2][0][t];
}

// The same on two rows for each thread, by two pairs of warps in turns: one multiplies, the other loads the next layer's weights to
// registers. Copies, if there are any, wait for nobody.
template <bool gradient, bool copies>
__global__ void chain_in_turns(const float* weights, int layers, float* out, long long* cycles) {
  constexpr int leading = 68, stage = 64 * leading, stages = 4, compute = 128, fetch = 64, ahead = 3;
  extern __shared__ __align__(128) float ring[];
  __shared__ __align__(16) float rows[2][2][64];
  const int t = int(threadIdx.x);
  for (int i = t; i < stages * stage; i += int(blockDim.x)) ring[i] = 0;
  if (t < 128) rows[0][t / 64][t % 64] = 1.0f / float(1 + t);
  __syncthreads();
  const auto meet = [] { asm volatile("bar.sync 1, %0;" ::"n"(compute) : "memory"); };
  const long long start = clock64();
  if (t < compute) {
    const int pair = t / 64, column = t % 64;
    if (pair == 1) meet();
    for (int l = pair; l < layers; l += 2) {
      const float* w = ring + l % stages * stage;
      float4 own[16];
#pragma unroll
      for (int q = 0; q < 16; ++q)
        own[q] = gradient ? four_in_order(w + column * leading + 4 * q)
                          : float4{one_in_order(w + 4 * q * leading + column), one_in_order(w + (4 * q + 1) * leading + column),
                                   one_in_order(w + (4 * q + 2) * leading + column), one_in_order(w + (4 * q + 3) * leading + column)};
      meet();
      float4 x[ahead + 1][2];
      const auto load = [&](int q) {
        for (int r = 0; r < 2; ++r) x[q % (ahead + 1)][r] = four_in_order(rows[l % 2][r] + 4 * q);
      };
      float sum[2] = {0, 0};
#pragma unroll
      for (int q = 0; q < ahead; ++q) load(q);
#pragma unroll
      for (int q = 0; q < 16; ++q) {
        if (q + ahead < 16) load(q + ahead);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float4 u = x[q % (ahead + 1)][r], v = own[q];
          sum[r] = fmaf(u.w, v.w, fmaf(u.z, v.z, fmaf(u.y, v.y, fmaf(u.x, v.x, sum[r]))));
        }
      }
      for (int r = 0; r < 2; ++r) rows[(l + 1) % 2][r][column] = fmaxf(sum[r], 0.0f);
      meet();
    }
    if (pair == 0) meet();
  } else if (copies && t < compute + fetch) {
    const int f = t - compute;
    for (int l = 0; l < layers; ++l) {
      const float* from = weights + size_t(l) * 64 * 64;
      float* to = ring + l % stages * stage;
      copy_layer<leading>(to, from, f);
      asm volatile("cp.async.commit_group;\ncp.async.wait_group 2;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
  if (t == 0) *cycles = clock64() - start;
  __syncthreads();
  if (t < 64) out[t] = rows[layers % 2][0][t];
}

// Pieces of weights alone, three on their way. told: each is told by a release in shared memory, as the section kernel's fetching warps do;
// PTX does not say whether that waits for copies on their way.
template <bool told>
__global__ void pieces_alone(const float* weights, int layers, long long* cycles) {
  constexpr int leading = 68, stage = 64 * leading, stages = 4;
  extern __shared__ __align__(128) float ring[];
  __shared__ unsigned arrived[2];
  const int t = int(threadIdx.x);
  const long long start = clock64();
  for (int l = 0; l < layers; ++l) {
    copy_layer<leading>(ring + l % stages * stage, weights + size_t(l) * 64 * 64, t);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 2;" ::: "memory");
    if constexpr (told) {
      __syncwarp();
      if (t % 32 == 0)
        asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(shared_address(&arrived[t / 32])), "r"(unsigned(l)) : "memory");
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  if (t == 0) *cycles = clock64() - start;
}

namespace {

std::string results;
void add(const char* name, double value) {
  char line[160];
  std::snprintf(line, sizeof line, "%s\n  \"%s\": %.4g", results.empty() ? "" : ",", name, value);
  results += line;
}

template <class T, class F>
T smallest(T* device_value, F run) {
  T best{}, now{};
  for (int i = 0; i < 7; ++i) {
    run();
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&now, device_value, sizeof now, cudaMemcpyDeviceToHost));
    if (i == 0 || now < best) best = now;
  }
  return best;
}

}  // namespace

int main() {
  cudaDeviceProp card{};
  CHECK(cudaGetDeviceProperties(&card, 0));
  const bool hopper = card.major >= 9;
  long long* cycles;
  unsigned long long* ns;
  float *floats, *rows;
  char* bytes;
  unsigned* words;
  constexpr int pieces = 512;
  CHECK(cudaMalloc(&cycles, 8));
  CHECK(cudaMalloc(&ns, 8));
  CHECK(cudaMalloc(&floats, 4096));
  CHECK(cudaMalloc(&words, 4096));
  CHECK(cudaMalloc(&rows, 8192));
  CHECK(cudaMalloc(&bytes, size_t(pieces) * kPiece));
  CHECK(cudaMemset(bytes, 0, size_t(pieces) * kPiece));
  const auto per = [](long long value, double count) { return value < 0 ? -1.0 : double(value) / count; };

  for (int deep : {1, 2, 4, 8}) {
    const size_t shared = size_t(deep) * kPiece;
    if (shared > card.sharedMemPerBlockOptin) continue;
    CHECK(cudaFuncSetAttribute(stream_pieces, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
    const long long c = smallest(cycles, [&] { stream_pieces<<<1, 256, shared>>>(bytes, pieces, deep, cycles); });
    add(("cp_async_bytes_per_cycle_deep_" + std::to_string(deep)).c_str(), double(pieces) * kPiece / double(c));
    if (!hopper) continue;
    const size_t bulk = shared + 1024;
    if (bulk > card.sharedMemPerBlockOptin) continue;
    const auto stream = [&](auto* kernel, int padding, const char* what) {
      const size_t room = shared + size_t(deep) * 64 * padding;
      CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(room)));
      const long long b = smallest(cycles, [&] { kernel<<<1, 32, room>>>(bytes, pieces, deep, cycles); });
      add((what + std::to_string(deep)).c_str(), double(pieces) * kPiece / double(b));
    };
    stream(stream_bulk<kPiece, 0>, 0, "bulk_bytes_per_cycle_deep_");
    stream(stream_bulk<256, 16>, 16, "bulk_rows_of_256_bytes_per_cycle_deep_");
  }

  for (int warps : {4, 8, 12}) {
    add(("block_barrier_cycles_" + std::to_string(warps) + "_warps").c_str(),
        per(smallest(cycles, [&] { block_barriers<<<1, warps * 32>>>(1000, cycles); }), 1000));
    add(("pair_barrier_cycles_" + std::to_string(warps) + "_warps").c_str(),
        per(smallest(cycles, [&] { pair_barriers<<<1, warps * 32>>>(1000, cycles); }), 1000));
  }

  for (int warps : {3, 5})
    add(("named_barrier_cycles_" + std::to_string(warps) + "_of_8_warps").c_str(),
        per(smallest(cycles, [&] { named_barriers<<<1, 256>>>(1000, warps, cycles); }), 1000));
  for (int warps : {1, 2, 4, 8}) {
    add(("wide_load_of_one_address_cycles_" + std::to_string(warps) + "_warps").c_str(),
        per(smallest(cycles, [&] { wide_loads<true><<<1, warps * 32>>>(1000, floats, cycles); }), 8000.0 * warps));
    add(("wide_load_cycles_" + std::to_string(warps) + "_warps").c_str(),
        per(smallest(cycles, [&] { wide_loads<false><<<1, warps * 32>>>(1000, floats, cycles); }), 8000.0 * warps));
  }
  add("fence_cycles", per(smallest(cycles, [&] { fences<<<1, 32>>>(1000, floats, cycles); }), 1000));

  const auto flags = smallest(ns, [&] {
    CHECK(cudaMemset(words, 0, 4096));
    flag_rounds<<<2, 32>>>(words, 1000, ns);
  });
  add("flag_one_way_ns", double(flags) / 2000);
  const int blocks = card.multiProcessorCount;
  const auto grid = smallest(ns, [&] {
    CHECK(cudaMemset(words, 0, 4096));
    int rounds = 1000;
    void* arguments[]{&words, &rounds, &ns};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_barriers), dim3(unsigned(blocks)), dim3(256), arguments, 0, nullptr));
  });
  add("grid_barrier_ns", double(grid) / 1000);

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 200; ++i) tiny<<<1, 32, 0, stream>>>(floats);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  float best = 1e30f;
  for (int i = 0; i < 7; ++i) {
    CHECK(cudaEventRecord(begin, stream));
    for (int k = 0; k < 20; ++k) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    best = std::min(best, ms);
  }
  add("graph_node_ns", double(best) * 1e6 / (20 * 200));

  const auto handed = [&](auto* kernel, const char* what) {
    add(what, per(smallest(cycles,
                           [&] {
                             CHECK(cudaMemset(words, 0, 4096));
                             CHECK(cudaMemset(rows, 0, 8192));
                             kernel<<<2, 128>>>(1000, rows, words, cycles, floats);
                           }),
                  1000));
  };
  handed(hand_over<false>, "hand_over_cycles_by_a_counter");
  handed(hand_over<true>, "hand_over_cycles_in_pairs");
  const auto chained = [&](auto* kernel, const char* what) {
    constexpr int room = 4 * 64 * 68 * 4;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room));
    const auto* weights = reinterpret_cast<const float*>(bytes);
    add(what, per(smallest(cycles, [&] { kernel<<<1, 256, room>>>(weights, pieces, floats, cycles); }), pieces));
  };
  chained(chain<false, Bring::nothing>, "layer_cycles");
  chained(chain<true, Bring::nothing>, "layer_cycles_gradient");
  chained(chain<false, Bring::by_async_copies>, "layer_cycles_beside_async_copies");
  chained(chain<true, Bring::by_async_copies>, "layer_cycles_gradient_beside_async_copies");
  chained(chain_in_turns<false, false>, "layer_cycles_in_turns");
  chained(chain_in_turns<true, false>, "layer_cycles_in_turns_gradient");
  chained(chain_in_turns<false, true>, "layer_cycles_in_turns_beside_async_copies");
  chained(chain_in_turns<true, true>, "layer_cycles_in_turns_gradient_beside_async_copies");
  const auto alone = [&](auto* kernel, const char* what) {
    constexpr int room = 4 * 64 * 68 * 4;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room));
    add(what, per(smallest(cycles, [&] { kernel<<<1, 64, room>>>(reinterpret_cast<const float*>(bytes), pieces, cycles); }), pieces));
  };
  alone(pieces_alone<false>, "piece_cycles");
  alone(pieces_alone<true>, "piece_cycles_told_by_a_release");
  if (hopper) {
    chained(chain<false, Bring::by_bulk_copies>, "layer_cycles_beside_bulk_copies");
    chained(chain<true, Bring::by_bulk_copies>, "layer_cycles_gradient_beside_bulk_copies");
  }
  int khz = 0;
  CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  add("clock_mhz", khz / 1000.0);
  add("multiprocessors", card.multiProcessorCount);
  std::printf("{\n  \"card\": \"%s\",%s\n}\n", card.name, results.c_str());
  return 0;
}
