#include "runtime/cuda/capture_range.h"

#include "runtime/cuda/check.h"
#include "runtime/device/backend.h"
#include "runtime/device/profiler.h"

namespace lamina {

void cuda::capture_range(const CudaApi& api, bool on) {
  check(api, on ? api.profiler_start() : api.profiler_stop(), on ? "start the profiler" : "stop the profiler", {DeviceKind::gpu});
}

void profiler::detail::cuda_capture(bool on) {
  if (cuda_backend().device_count() > 0) cuda::capture_range(cuda::cudart_api(), on);
}

}  // namespace lamina
