// Configuration of the CPU backend, from the environment (runtime/core/settings.h) unless the program overrides it.
#pragma once
#include <string>

#include "runtime/core/export.h"

namespace lamina::config {

// LAMINA_THREADS: threads per CPU device. Default: the cores allowed by the affinity mask and the cgroup's CPU quota, divided among the
// CPU's devices.
LAMINA_API int threads();
LAMINA_API void set_threads(int threads);  // for tests and programs; existing plans keep their number
// LAMINA_CPU: avx512, avx2 or scalar; default: the best that the machine supports. An unsupported one is an error.
LAMINA_API const std::string& cpu_isa();
LAMINA_API void set_cpu_isa(const std::string& isa);  // for tests
LAMINA_API std::string best_cpu_isa();
// The number of virtual devices that the CPU is split into; 1 at first. Only the CPU's backend changes it: split_cpu() in
// runtime/device/backend.h.
LAMINA_API int cpu_devices();
LAMINA_API void store_cpu_devices(int count);

}  // namespace lamina::config
