// What a program says to profilers: ranges of its own (runtime/device/profiler.h), and which of its steps are captured.
#pragma once
#include "runtime/device/profiler.h"

namespace lamina::profiler {

// Waits for what runs already, then cudaProfilerStart: `nsys profile --capture-range=cudaProfilerApi` and `ncu --profile-from-start off`
// begin here. Without a GPU nothing happens. Throws device when CUDA refuses, and what synchronize() throws.
LAMINA_API void start_capture();
// Waits for what was started, then cudaProfilerStop.
LAMINA_API void stop_capture();

// From here to the end of the block. An error at its end is not reported.
class LAMINA_API Capture {
 public:
  Capture() { start_capture(); }
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
};

}  // namespace lamina::profiler
