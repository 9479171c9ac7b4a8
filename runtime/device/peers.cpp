#include "runtime/device/peers.h"

#include "runtime/core/settings.h"

namespace lamina {

Patience Patience::of_settings() {
  Patience p;
  p.warning = std::chrono::duration<double>(config::number(Setting::collective_warning).value_or(30));
  p.failure = std::chrono::duration<double>(config::number(Setting::collective_timeout).value_or(300));
  return p;
}

JoinsPeers::~JoinsPeers() = default;

}  // namespace lamina
