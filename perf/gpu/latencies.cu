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

// --- 7. a chain of layers on one multiprocessor, [rows,64] x [64,64], float32 multiply-adds, weights from the L2 cache through shared
// memory ---
template <int rows>
__global__ void layers(const float* weights, int count, float* out, long long* cycles) {
  __shared__ __align__(16) float w[2][64 * 64];
  __shared__ float x[rows][64];
  const int t = int(threadIdx.x), column = t % 64, group = t / 64;  // 256 threads: four groups of rows
  const auto fetch = [&](int l) {
    for (int i = t; i < 64 * 64 / 4; i += 256)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&w[l % 2][i * 4])),
                   "l"(weights + size_t(l) * 64 * 64 + i * 4)
                   : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int i = t; i < rows * 64; i += 256) (&x[0][0])[i] = 1.0f / float(1 + i);
  fetch(0);
  constexpr int mine = (rows + 3) / 4;
  const long long start = clock64();
  for (int l = 0; l < count; ++l) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (l + 1 < count) fetch(l + 1);
    float sums[mine] = {};
    for (int k = 0; k < 64; ++k) {
      const float b = w[l % 2][k * 64 + column];
#pragma unroll
      for (int r = 0; r < mine; ++r)
        if (r * 4 + group < rows) sums[r] = fmaf(x[r * 4 + group][k], b, sums[r]);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < mine; ++r)
      if (r * 4 + group < rows) x[r * 4 + group][column] = fmaxf(sums[r], 0.0f);
  }
  __syncthreads();
  if (t == 0) *cycles = clock64() - start;
  out[t] = (&x[0][0])[t % (rows * 64)];
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
  float* floats;
  char* bytes;
  unsigned* words;
  constexpr int pieces = 512;
  CHECK(cudaMalloc(&cycles, 8));
  CHECK(cudaMalloc(&ns, 8));
  CHECK(cudaMalloc(&floats, 4096));
  CHECK(cudaMalloc(&words, 4096));
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

  const float* weights = reinterpret_cast<const float*>(bytes);
  const int count = int(size_t(pieces) * kPiece / (64 * 64 * 4));
  add("layer_cycles_5_rows", per(smallest(cycles, [&] { layers<5><<<1, 256>>>(weights, count, floats, cycles); }), count));
  add("layer_cycles_10_rows", per(smallest(cycles, [&] { layers<10><<<1, 256>>>(weights, count, floats, cycles); }), count));
  add("layer_cycles_20_rows", per(smallest(cycles, [&] { layers<20><<<1, 256>>>(weights, count, floats, cycles); }), count));
  int khz = 0;
  CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  add("clock_mhz", khz / 1000.0);
  add("multiprocessors", card.multiProcessorCount);
  std::printf("{\n  \"card\": \"%s\",%s\n}\n", card.name, results.c_str());
  return 0;
}
