#include "runtime/device/backend.h"

#include <atomic>

#include "runtime/core/error.h"

namespace lamina {

FaultSite Backend::fault_site(Stream&, DescribeFault, const std::string&) { return {}; }

void* Backend::memory_of_recording(const void*, std::span<const char>) { return nullptr; }

std::unique_ptr<LaunchGraph> Backend::launch_graph(Device) { return nullptr; }

namespace {
std::atomic<Backend*> replacements[3] = {};
}

void replace_backend(DeviceKind kind, Backend* backend) { replacements[int(kind)] = backend; }

Backend& backend_of(DeviceKind kind) {
  if (Backend* replacement = replacements[int(kind)].load(std::memory_order_relaxed)) return *replacement;
  return kind == DeviceKind::cpu ? cpu_backend() : kind == DeviceKind::gpu ? cuda_backend() : null_backend();
}

void require_device(Device device) {
  if (device == kAutomatic)
    throw Error(ErrorKind::device, {.what = "'auto' is no device that a tensor can lie on",
                                    .where = "",
                                    .why = "devices are chosen for what is traced, when its plan is made",
                                    .fix = "call a traced function: with lm.device(\"auto\"): f(x)"});
  Backend& backend = backend_of(device);
  int count = backend.device_count();
  if (device.index < count) return;
  throw Error(ErrorKind::device,
              {.what = cat("there is no device ", device),
               .where = "",
               .why = count == 0 ? backend.unavailable_reason()
                                 : cat("the ", backend.name(), " backend has ", count, count == 1 ? " device" : " devices"),
               .fix = device.kind == DeviceKind::cpu ? "split the CPU into more: lm.config.set_virtual_devices(\"cpu\", count)"
                                                     : "choose one of lm.config.list_devices()"});
}

}  // namespace lamina
