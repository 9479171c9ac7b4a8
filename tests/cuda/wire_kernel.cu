#include "tests/cuda/wire_kernel.h"

namespace lamina::kernels::cuda {

void launch_wire(Stream& stream, const WireLaunch& w) {
  launch<wire>(stream, {.grid = {1}, .threads = unsigned(kWireThreads), .shared_bytes = 0, .cooperative = false}, w);
}

}  // namespace lamina::kernels::cuda
