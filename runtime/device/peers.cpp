#include "runtime/device/peers.h"

#include "runtime/core/settings.h"
#include "runtime/device/backend.h"

namespace lamina {

Patience Patience::of_settings() {
  Patience p;
  p.warning = std::chrono::duration<double>(config::number(Setting::collective_warning).value_or(30));
  p.failure = std::chrono::duration<double>(config::number(Setting::collective_timeout).value_or(300));
  return p;
}

JoinsPeers::~JoinsPeers() = default;

JoinsPeers& JoinsPeers::of(Device device) {
  require_device(device);
  if (auto* joins = dynamic_cast<JoinsPeers*>(&backend_of(device))) return *joins;
  throw Error(ErrorKind::device, {.what = cat("devices of other ranks cannot be joined with ", device),
                                  .where = "",
                                  .why = "only GPUs exchange bytes directly",
                                  .fix = "pass arrays on the CPU, or place the tensor on a GPU"});
}

}  // namespace lamina
