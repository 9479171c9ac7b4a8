#include "graph/frontend/device.h"

#include <atomic>
#include <optional>

#include "graph/frontend/trace.h"
#include "graph/frontend/variable.h"
#include "runtime/device/backend.h"
#include "runtime/device/virtual_gpus.h"
#include "runtime/dist/world.h"

namespace lamina {
namespace {
thread_local std::optional<Device> scope;
thread_local bool automatic = false;
std::atomic<bool> eager_functions{false};

// Ranks of one host have GPUs of their own.
Device first_choice() {
  static const Device device = [] {
    const int gpus = backend_of(DeviceKind::gpu).device_count();
    return gpus == 0 ? Device{} : Device{DeviceKind::gpu, 0, int16_t(gpus == 1 ? 0 : distributed::launch().local_rank % gpus)};
  }();
  return device;
}
}  // namespace

DeviceScope::DeviceScope(Device device) : before_(scope.value_or(Device{})), had_one_(scope.has_value()), was_automatic_(automatic) {
  if (device == kAutomatic) {
    scope = default_device();
    automatic = true;
    return;
  }
  if (device != before_) require_device(device);
  scope = device;
  automatic = false;
}
DeviceScope::DeviceScope(const std::string& device) : DeviceScope(parse_device(device)) {}
DeviceScope::~DeviceScope() {
  automatic = was_automatic_;
  if (had_one_)
    scope = before_;
  else
    scope.reset();
}

Beside::Beside(Device device) {
  const Trace* trace = Trace::current();
  if (device != default_device() && !(trace && trace->is_body)) scope_.emplace(device);
}

bool in_device_scope() { return scope.has_value(); }
bool in_automatic_scope() { return automatic; }
Device default_device() { return scope ? *scope : first_choice(); }

std::vector<std::string> list_devices(const std::string& kind) {
  std::vector<std::string> out;
  if (!kind.empty() && kind != "cpu" && kind != "gpu") throw unknown_name("device kind", kind, {"cpu", "gpu"});
  for (DeviceKind k : {DeviceKind::cpu, DeviceKind::gpu}) {
    if (!kind.empty() && kind != (k == DeviceKind::cpu ? "cpu" : "gpu")) continue;
    for (int i = 0; i < backend_of(k).device_count(); ++i) out.push_back(text(Device{k, 0, int16_t(i)}));
  }
  return out;
}

std::string device_of(const Tensor& t) { return text(t.device()); }
std::string device_of(const Variable& v) { return text(v.device()); }

void synchronize() {
  for (DeviceKind kind : {DeviceKind::cpu, DeviceKind::gpu}) {
    Backend& backend = backend_of(kind);
    for (int i = 0; i < backend.device_count(); ++i) {
      Stream stream = backend.default_stream(Device{kind, 0, int16_t(i)});
      backend.synchronize(stream);
    }
  }
}

namespace config {
void set_virtual_devices(const std::string& kind, int count) {
  if (kind == "cpu") return split_cpu(count);
  if (kind != "gpu")
    throw Error(ErrorKind::invalid_argument, {.what = cat("'", kind, "' devices cannot be split into virtual devices"),
                                              .where = "lm.config.set_virtual_devices",
                                              .why = "only the CPU and GPUs can",
                                              .fix = "pass \"cpu\" or \"gpu\""});
  if (count >= 1 && count <= kMostGpuParts) require_device({DeviceKind::gpu, 0, 0});
  split_gpus(count);
}
void run_functions_eagerly(bool on) { eager_functions = on; }
bool functions_run_eagerly() { return eager_functions.load(std::memory_order_relaxed); }
}  // namespace config

namespace cuda {
bool is_available() { return backend_of(DeviceKind::gpu).device_count() > 0; }
std::vector<LibraryReport> libraries() { return backend_of(DeviceKind::gpu).libraries(); }
std::string why_unavailable() { return backend_of(DeviceKind::gpu).unavailable_reason(); }
}  // namespace cuda

}  // namespace lamina
