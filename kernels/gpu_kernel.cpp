#include "kernels/gpu_kernel.h"

#include <string_view>
#include <unordered_map>

namespace lamina::kernels {
namespace {

// Filled while a library is opened, and only read after.
std::unordered_map<std::string_view, GpuFunction>& known() {
  static auto* kernels = new std::unordered_map<std::string_view, GpuFunction>;
  return *kernels;
}

}  // namespace

void register_gpu_kernel(const char* name, GpuFunction kernel) { known()[name] = kernel; }

GpuFunction find_gpu_kernel(const char* name) {
  const auto found = known().find(name);
  return found == known().end() ? nullptr : found->second;
}

}  // namespace lamina::kernels
