#include "runtime/cuda/kernel_launch.h"

#include "runtime/cuda/cuda_backend.h"

namespace lamina::cuda {
namespace {

CudaBackend& cuda_backend_of(const Stream& stream) { return static_cast<CudaBackend&>(*stream.backend); }
CudaBackend& cuda_backend_of(Device device) { return static_cast<CudaBackend&>(lamina::backend_of(device)); }

}  // namespace

void launch_kernel(Stream& stream, const LaunchShape& shape, const void* kernel, void** arguments) {
  CudaBackend& backend = cuda_backend_of(stream);
  if (!backend.allow(stream.device, kernel, shape)) return;
  cudaLaunchAttribute attribute{};
  if (shape.cluster) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = shape.grid.x, attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  } else {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.grid.x, shape.grid.y);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = native(stream);
  config.attrs = &attribute;
  config.numAttrs = shape.cooperative || shape.cluster ? 1 : 0;
  backend.api().launch(&config, kernel, arguments);
}

bool launch_failed(const Stream& stream) { return cuda_backend_of(stream).api().peek_last_error() != cudaSuccess; }

int resident_blocks(Device device, const void* kernel, unsigned threads, size_t shared_bytes) {
  CudaBackend& backend = cuda_backend_of(device);
  const CudaApi& api = backend.api();
  const CurrentDevice current(api, device);
  int each = 0;
  const LaunchShape shape{.grid = {}, .threads = threads, .shared_bytes = unsigned(shared_bytes)};
  if (!backend.allow(device, kernel, shape) || api.resident_blocks(&each, kernel, int(threads), shared_bytes) != cudaSuccess) {
    api.take_last_error();  // clears it: too large is not an error here
    return 0;
  }
  return each * backend.properties(device).multiprocessors;
}

int largest_cluster(Device device, const void* kernel, unsigned threads, int most) {
  CudaBackend& backend = cuda_backend_of(device);
  const CudaApi& api = backend.api();
  const CurrentDevice current(api, device);
  const auto shared_bytes = unsigned(backend.properties(device).shared_memory_per_block);
  cudaLaunchAttribute size{};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.y = size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(threads);
  config.attrs = &size, config.numAttrs = 1;
  config.dynamicSmemBytes = shared_bytes;
  const auto asked = unsigned(most);
  int found = 0;
  if (backend.allow(device, kernel, {.grid = {asked}, .threads = threads, .shared_bytes = shared_bytes, .cluster = true})) {
    for (unsigned blocks = asked; blocks > 1 && found == 0; blocks /= 2) {
      config.gridDim = dim3(blocks);
      size.val.clusterDim.x = blocks;
      int clusters = 0;
      if (api.resident_clusters(&clusters, kernel, &config) == cudaSuccess && clusters > 0) found = int(blocks);
    }
  }
  api.take_last_error();  // clears it: too large is not an error here
  return found;
}

}  // namespace lamina::cuda
