// Placement of tensors and ops, synchronisation with devices, and switches for functions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/frontend/tensor.h"
#include "runtime/device/device.h"
#include "runtime/device/library_report.h"

namespace lamina {

// Places this thread's tensors, Variables and ops on `device` until it is destroyed. Throws device when there is no such device. On "auto",
// what is traced is placed by cost when its plan is made (graph/compile/place.h); all else is on the device outside of the scope.
class LAMINA_API DeviceScope {
 public:
  explicit DeviceScope(Device device);
  explicit DeviceScope(const std::string& device);  // "gpu:0", "cpu:1", "auto"
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device before_;
  bool had_one_, was_automatic_;
};

// Places what follows beside a tensor on `device`, until it is destroyed. Nothing to do in a body of a loop or branch, all of which runs on
// one device: the tensor is copied there.
class Beside {
 public:
  explicit Beside(Device device);

 private:
  std::optional<DeviceScope> scope_;
};

LAMINA_API Device default_device();  // of the innermost DeviceScope, else this rank's GPU (its number on the host), else cpu:0
LAMINA_API bool in_device_scope();
LAMINA_API bool in_automatic_scope();  // the innermost DeviceScope is on "auto"
// The devices of one kind ("cpu", "gpu"), or of both when it is empty: {"gpu:0"}.
LAMINA_API std::vector<std::string> list_devices(const std::string& kind = "");
LAMINA_API std::string device_of(const Tensor& t);
LAMINA_API std::string device_of(const Variable& v);
// Waits for all work that this process has started on its devices; throws the first error.
LAMINA_API void synchronize();
// Calls f() with tensors, Variables and ops placed on `device`.
template <class F>
decltype(auto) with_device(const std::string& device, F&& f) {
  DeviceScope scope(device);
  return f();
}

namespace config {
// Splits the CPU into `count` virtual devices, "cpu:0" to "cpu:N-1", each with its own streams and its share of threads and memory. `kind`
// is "cpu". Throws state once a device other than cpu:0 is in use.
LAMINA_API void set_virtual_devices(const std::string& kind, int count);
// When on, lm::function objects run their bodies eagerly, even where graphs exist. For debugging.
LAMINA_API void run_functions_eagerly(bool on);
LAMINA_API bool functions_run_eagerly();
}  // namespace config

namespace cuda {
LAMINA_API bool is_available();
LAMINA_API std::string why_unavailable();  // "" when it is available
// The driver and NVIDIA's libraries: which are found, their versions, and how to install missing ones. Empty in a build without CUDA.
LAMINA_API std::vector<LibraryReport> libraries();
}  // namespace cuda

}  // namespace lamina
