#include "graph/frontend/profiler.h"

#include "graph/frontend/device.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina::profiler {

void start_capture() {
  synchronize();
  backend_of(DeviceKind::gpu).capture_range(true);
}

void stop_capture() {
  synchronize();
  backend_of(DeviceKind::gpu).capture_range(false);
}

Capture::~Capture() {
  try {
    stop_capture();
  } catch (const Error&) {  // device errors are thrown by the next wait outside of a destructor
  }
}

}  // namespace lamina::profiler
