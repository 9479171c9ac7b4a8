#include "kernels/cuda/section.h"
#include "kernels/cuda/section_interpreter.h"
#if defined(__CUDACC__)
#include "runtime/cuda/cuda_backend.h"
#endif

namespace lamina::kernels::cuda {

LAMINA_KERNEL(256, 1) section_kernel_in_cluster(LAMINA_ARGUMENT resident::Arguments a) {
  resident::run_block<resident::Interpreter<resident::InEveryPrecision<resident::AnyFormInCluster>, true>>(a);
}

void launch_in_cluster(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments) {
  launch<section_kernel_in_cluster>(stream, shape, arguments);
}

#if defined(__CUDACC__)
// A card may have fewer multiprocessors side by side than its kind has, or be a part of one.
int largest_cluster(Device device, int most) {
  const lamina::cuda::CurrentDevice current(lamina::cuda::cudart_api(), device);
  const void* const kernel = reinterpret_cast<const void*>(section_kernel_in_cluster);
  int shared_bytes = 0;
  cudaLaunchAttribute size{};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.y = size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(section::kBlockThreads);
  config.attrs = &size, config.numAttrs = 1;
  int found = 0;
  if (cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.index) == cudaSuccess &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) == cudaSuccess &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess) {
    config.dynamicSmemBytes = size_t(shared_bytes);
    for (int blocks = most; blocks > 1 && found == 0; blocks /= 2) {
      config.gridDim = dim3(unsigned(blocks));
      size.val.clusterDim.x = unsigned(blocks);
      int clusters = 0;
      if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess && clusters > 0) found = blocks;
    }
  }
  cudaGetLastError();  // what does not fit is no failure of anybody's
  return found;
}
#else
int largest_cluster(Device, int most) { return most; }
#endif

}  // namespace lamina::kernels::cuda
