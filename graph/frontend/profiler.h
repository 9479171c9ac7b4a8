// The program's side of profiling: its own ranges (runtime/device/profiler.h), and which part is captured.
#pragma once
#include "runtime/device/profiler.h"

namespace lamina::profiler {

// Waits for running work, then calls cudaProfilerStart: `nsys profile --capture-range=cudaProfilerApi` and `ncu --profile-from-start off`
// begin here. Does nothing without a GPU. Throws device when CUDA refuses, and synchronize()'s errors.
LAMINA_API void start_capture();
// Waits for started work, then calls cudaProfilerStop.
LAMINA_API void stop_capture();

// Captures until the end of the block. Errors in its destructor are dropped.
class LAMINA_API Capture {
 public:
  Capture() { start_capture(); }
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
};

}  // namespace lamina::profiler
