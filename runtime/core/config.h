// What the CPU backend uses: a setting of the environment (runtime/core/settings.h), unless a program says otherwise.
#pragma once
#include <string>

#include "runtime/core/export.h"

namespace lamina::config {

// LAMINA_THREADS: threads per CPU device; default: the cores that this process may use, by its affinity mask and its control group's quota.
LAMINA_API int threads();
LAMINA_API void set_threads(int threads);  // for tests and programs; plans made before keep theirs
// LAMINA_CPU: avx512, avx2 or scalar; default: the best that the machine has. Asking for one that it lacks is an error.
LAMINA_API const std::string& cpu_isa();
LAMINA_API void set_cpu_isa(const std::string& isa);  // for tests
LAMINA_API std::string best_cpu_isa();
// LAMINA_CPU_DEVICES: how many virtual devices the CPU is split into; default 1.
LAMINA_API int cpu_devices();

}  // namespace lamina::config
