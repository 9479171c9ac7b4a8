#include "runtime/cuda/capture_range.h"

#include "runtime/cuda/check.h"

namespace lamina::cuda {

void capture_range(const CudaApi& api, bool on) {
  check(api, on ? api.profiler_start() : api.profiler_stop(), on ? "start the profiler" : "stop the profiler", {DeviceKind::gpu});
}

}  // namespace lamina::cuda
