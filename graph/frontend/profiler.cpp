#include "graph/frontend/profiler.h"

#include "graph/frontend/device.h"
#include "runtime/core/error.h"

namespace lamina::profiler {

void start_capture() {
  synchronize();
  detail::cuda_capture(true);
}

void stop_capture() {
  synchronize();
  detail::cuda_capture(false);
}

Capture::~Capture() {
  try {
    stop_capture();
  } catch (const Error&) {  // device errors are thrown by the next wait outside of a destructor
  }
}

}  // namespace lamina::profiler
