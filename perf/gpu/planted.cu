// A bug for each of compute-sanitizer's tools to find: planted memcheck | racecheck | initcheck | synccheck | none
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

__global__ void outside(int* x, int n) { x[n + int(threadIdx.x)] = 1; }

__global__ void race(int* x) {
  __shared__ int shared[64];
  shared[threadIdx.x] = int(threadIdx.x);
  x[threadIdx.x] = shared[63 - threadIdx.x];  // a barrier is missing
}

__global__ void unwritten(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x] + 1; }

__global__ void divergent(int* x) {
  if (threadIdx.x < 40) __syncthreads();  // not all threads of the block arrive
  x[threadIdx.x] = 1;
}

__global__ void right(int* x) {
  __shared__ int shared[64];
  shared[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  x[threadIdx.x] = shared[63 - threadIdx.x];
}

int main(int count, char** words) {
  const char* which = count > 1 ? words[1] : "";
  int *x = nullptr, *y = nullptr;
  if (cudaMalloc(&x, 64 * sizeof(int)) != cudaSuccess || cudaMalloc(&y, 64 * sizeof(int)) != cudaSuccess) {
    std::fprintf(stderr, "planted: no memory on a GPU\n");
    return 2;
  }
  if (std::strcmp(which, "memcheck") == 0)
    outside<<<1, 64>>>(x, 1024);  // beyond both allocations
  else if (std::strcmp(which, "racecheck") == 0)
    race<<<1, 64>>>(x);
  else if (std::strcmp(which, "initcheck") == 0)
    unwritten<<<1, 64>>>(x, y);
  else if (std::strcmp(which, "synccheck") == 0)
    divergent<<<1, 64>>>(x);
  else if (std::strcmp(which, "none") == 0)
    right<<<1, 64>>>(x);
  else
    return 2;
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
