// The section kernel for sections with sums over ranks.
#include "kernels/cuda/section_kernel.h"

namespace lamina::kernels::cuda {

LAMINA_KERNEL(256, 1) section_kernel_of_ranks(LAMINA_ARGUMENT resident::Arguments a) { resident::run_block<true>(a); }

void launch_of_ranks(Stream& stream, const LaunchShape& shape, const resident::Arguments& a) {
  launch<section_kernel_of_ranks>(stream, shape, a);
}

}  // namespace lamina::kernels::cuda
