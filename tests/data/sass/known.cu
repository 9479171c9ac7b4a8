// Kernels whose cycles per instruction are known, for tests/python/test_cycles.py: each has one loop of dependent instructions.
extern "C" __global__ void chain_of_products(float* data, float a, float b, int count) {
  float v = data[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 64; ++j) v = __fmaf_rn(v, a, b);
  }
  data[threadIdx.x] = v;
}

extern "C" __global__ void eight_chains_of_products(float* data, float a, float b, int count) {
  float v[8];
#pragma unroll
  for (int c = 0; c < 8; ++c) v[c] = data[threadIdx.x + c];
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 64; ++j) v[j % 8] = __fmaf_rn(v[j % 8], a, b);
  }
#pragma unroll
  for (int c = 0; c < 8; ++c) data[threadIdx.x + c] = v[c];
}

extern "C" __global__ void chain_of_shared_loads(unsigned* data, int count) {
  __shared__ unsigned next[256];
  next[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(next)) + 4 * threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 16; ++j) asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(at));
  }
  data[threadIdx.x] = at;
}

extern "C" __global__ void wide_shared_loads(float4* data, int count) {
  __shared__ float4 values[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) values[i] = data[i];
  __syncthreads();
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(values)) + 16 * threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float4 v;
      asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at + 512 * j));
      sum += v.x + v.y + v.z + v.w;
    }
  }
  data[threadIdx.x].x = sum;
}

extern "C" __global__ void chain_of_shuffles(float* data, int count) {
  float v = data[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 16; ++j) v = __shfl_xor_sync(~0u, v, 1 << (j % 5));
  }
  data[threadIdx.x] = v;
}

extern "C" __global__ void chain_of_global_loads(unsigned long long* data, int count) {
  unsigned long long at = data[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at));
  }
  data[threadIdx.x] = at;
}

extern "C" __global__ void barriers(float* data, int count) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) __syncthreads();
  }
  data[threadIdx.x] = 1;
}
