#include "kernels/cuda/section.h"
#include "kernels/cuda/section_interpreter.h"

namespace lamina::kernels::cuda {

LAMINA_KERNEL(256, 1) section_kernel_in_cluster(LAMINA_ARGUMENT resident::Arguments a) {
  resident::run_block<resident::Interpreter<resident::InEveryPrecision<true>, true>>(a);
}

void launch_in_cluster(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments) {
  launch<section_kernel_in_cluster>(stream, shape, arguments);
}

#if defined(__CUDACC__)
int largest_cluster(Device device, int most) {
  return lamina::cuda::largest_cluster(device, reinterpret_cast<const void*>(section_kernel_in_cluster), section::kBlockThreads, most);
}
#else
int largest_cluster(Device, int most) { return most; }
#endif

}  // namespace lamina::kernels::cuda
