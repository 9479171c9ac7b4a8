// Configuration of the CPU backend, from the environment (runtime/core/settings.h) unless the program overrides it.
#pragma once
#include <string>

#include "runtime/core/export.h"

namespace lamina::config {

// LAMINA_THREADS: threads per CPU device. Default: the cores allowed by the affinity mask and the cgroup's CPU quota.
LAMINA_API int threads();
LAMINA_API void set_threads(int threads);  // for tests and programs; existing plans keep their number
// LAMINA_CPU: avx512, avx2 or scalar; default: the best that the machine supports. An unsupported one is an error.
LAMINA_API const std::string& cpu_isa();
LAMINA_API void set_cpu_isa(const std::string& isa);  // for tests
LAMINA_API std::string best_cpu_isa();
// LAMINA_CPU_DEVICES: number of virtual devices that the CPU is split into; default 1.
LAMINA_API int cpu_devices();

}  // namespace lamina::config
