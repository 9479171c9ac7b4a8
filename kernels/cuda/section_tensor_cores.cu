#include "kernels/cuda/section.h"
#include "kernels/cuda/section_interpreter.h"

namespace lamina::kernels::cuda {

LAMINA_KERNEL(256, 1) section_kernel_with_tensor_cores(LAMINA_ARGUMENT resident::Arguments a) {
  resident::run_block<resident::Interpreter<resident::InEveryPrecision>>(a);
}

void launch_with_tensor_cores(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments) {
  launch<section_kernel_with_tensor_cores>(stream, shape, arguments);
}

#if defined(__CUDACC__)
int resident_with_tensor_cores(Device device) {
  return lamina::cuda::resident_blocks(device, reinterpret_cast<const void*>(section_kernel_with_tensor_cores), section::kBlockThreads,
                                       resident::kSharedBytes);
}
#endif

}  // namespace lamina::kernels::cuda
