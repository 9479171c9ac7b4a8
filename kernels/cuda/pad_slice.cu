#include "kernels/pad_slice.h"

#include "kernels/copy.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

LAMINA_KERNEL(256) fill_zero(unsigned char* to, int64_t bytes) {
  const int64_t words = bytes / 8;  // every buffer begins at a multiple of 8
  for (int64_t i = first_element(); i < words; i += all_threads()) reinterpret_cast<unsigned long long*>(to)[i] = 0;
  for (int64_t i = words * 8 + first_element(); i < bytes; i += all_threads()) to[i] = 0;
}

}  // namespace

void zero(Stream& stream, const View& y) {
  const int64_t bytes = y.size() * int64_t(size_of(y.dtype));
  if (bytes) launch<fill_zero>(stream, over((bytes + 7) / 8), y.as<unsigned char>(), bytes);
}

void pad_slice(Stream& stream, const View& x, const View& y, View place, int64_t offset) {
  if (y.size() == 0) return;
  zero(stream, y);
  place.data = y.as<char>() + offset * int64_t(size_of(y.dtype));
  copy_elements(stream, x, place);
}

namespace {
const GpuKernels<&pad_slice> registered;
}

}  // namespace lamina::kernels::cuda
