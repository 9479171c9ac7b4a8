#include "kernels/cuda/section.h"
#include "kernels/cuda/section_interpreter.h"
#include "kernels/cuda/section_mma.h"

namespace lamina::kernels::cuda {
namespace resident {

// Products by tensor cores, but those of float32.
struct InEveryPrecision {
  LAMINA_DEVICE static void dense(Block& b, const BlockStep& s) {
    if (s.precision == Precision::float32) product<false, AnyForm>(b, s);
    else product_by_tensor_cores<false, AnyForm>(b, s);
  }
  LAMINA_DEVICE static void dense_grad_input(Block& b, const BlockStep& s) {
    if (s.precision == Precision::float32) product<true, AnyForm>(b, s);
    else product_by_tensor_cores<true, AnyForm>(b, s);
  }
  LAMINA_DEVICE static void dense_update(Block& b, const BlockStep& s) {
    if (s.precision == Precision::float32) update<ColumnSums, Code, Code>(b, s);
    else update<MmaUpdateSums, Code, Code>(b, s);
  }
};

}  // namespace resident

LAMINA_KERNEL(256, 1) section_kernel_with_tensor_cores(LAMINA_ARGUMENT resident::Arguments a) {
  resident::run_block<resident::Interpreter<resident::InEveryPrecision>>(a);
}

void launch_with_tensor_cores(Stream& stream, const LaunchShape& shape, const resident::Arguments& arguments) {
  launch<section_kernel_with_tensor_cores>(stream, shape, arguments);
}

}  // namespace lamina::kernels::cuda
