// Runs every instruction that the emulation imitates on a card, by the trial of tests/emulated/instructions.h, which tests run on the
// emulation.
//   nvcc -O2 -std=c++20 -fmad=false --expt-relaxed-constexpr -arch=sm_90a -I. -o instructions perf/gpu/instructions.cu
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/cuda/kernel_launch.h"
#include "tests/emulated/instructions.h"

// The library's own needs its backend; this program is one file.
void lamina::cuda::launch_kernel(Stream&, const LaunchShape& shape, const void* kernel, void** arguments) {
  const dim3 grid(shape.grid.x, shape.grid.y), block(shape.threads);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shape.shared_bytes)) == cudaSuccess)
    shape.cooperative ? cudaLaunchCooperativeKernel(kernel, grid, block, arguments, shape.shared_bytes, nullptr)
                      : cudaLaunchKernel(kernel, grid, block, arguments, shape.shared_bytes, nullptr);
}

namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "instructions: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

class CardMemory {
 public:
  lamina::Stream& stream() { return stream_; }
  template <class T>
  T* put(const std::vector<T>& values) {
    void* to = nullptr;
    check(cudaMalloc(&to, values.size() * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy to the card");
    return static_cast<T*>(to);
  }
  template <class T>
  std::vector<T> take(const T* from, size_t count) {
    check(cudaGetLastError(), "a launch");
    std::vector<T> out(count);
    check(cudaMemcpy(out.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "a kernel, or cudaMemcpy from the card");
    return out;
  }

 private:
  lamina::Stream stream_;
};

}  // namespace

int main() {
  cudaDeviceProp card{};
  check(cudaGetDeviceProperties(&card, 0), "cudaGetDeviceProperties");
  CardMemory memory;
  const std::vector<std::string> wrong = lamina::kernels::cuda::instructions::wrong(memory, 1u << 22);
  for (const std::string& name : wrong) std::printf("DIFFERS from the manual, and so from its twin: %s\n", name.c_str());
  if (wrong.empty()) std::printf("%s: all instructions are what their twins are\n", card.name);
  return wrong.empty() ? 0 : 1;
}
