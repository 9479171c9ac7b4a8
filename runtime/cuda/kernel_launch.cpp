#include "runtime/cuda/kernel_launch.h"

#include "runtime/cuda/cuda_backend.h"

namespace lamina::cuda {
namespace {

CudaBackend& cuda_backend_of(const Stream& stream) { return static_cast<CudaBackend&>(*stream.backend); }
CudaBackend& cuda_backend_of(Device device) { return static_cast<CudaBackend&>(lamina::backend_of(device)); }

}  // namespace

void launch_kernel(Stream& stream, const LaunchShape& shape, const void* kernel, void** arguments) {
  CudaBackend& backend = cuda_backend_of(stream);
  if (!backend.allow(stream.device, kernel, shape.shared_bytes)) return;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.grid.x, shape.grid.y);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = native(stream);
  config.attrs = &attribute;
  config.numAttrs = shape.cooperative ? 1 : 0;
  backend.api().launch(&config, kernel, arguments);
}

bool launch_failed(const Stream& stream) { return cuda_backend_of(stream).api().peek_last_error() != cudaSuccess; }

int resident_blocks(Device device, const void* kernel, unsigned threads, size_t shared_bytes) {
  CudaBackend& backend = cuda_backend_of(device);
  const CudaApi& api = backend.api();
  const CurrentDevice current(api, device);
  int each = 0;
  if (!backend.allow(device, kernel, unsigned(shared_bytes)) ||
      api.resident_blocks(&each, kernel, int(threads), shared_bytes) != cudaSuccess) {
    api.take_last_error();  // clears it: too large is not an error here
    return 0;
  }
  return each * backend.properties(device).multiprocessors;
}

}  // namespace lamina::cuda
