// Device: where a tensor lives and an instruction runs. A value: comparable, printable, cheap to copy.
#pragma once
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/export.h"

namespace lamina {

enum class DeviceKind : uint8_t { cpu, gpu, null };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  uint8_t model = 0;  // of a null device: which card it pretends to be (index into null_models())
  int16_t index = 0;
  auto operator<=>(const Device&) const = default;
};

// What planning needs to know about a device.
struct DeviceProperties {
  std::string name;
  int64_t memory = 0;                   // bytes
  int compute_capability = 0;           // 90 for sm_90; 0 on a CPU
  int multiprocessors = 0;              // SMs; 0 on a CPU
  int64_t shared_memory_per_block = 0;  // bytes a block can use when it asks; 0 on a CPU
  int largest_cluster = 0;              // blocks that may be one cluster; 0: the card has no clusters
  int threads = 1;                      // on a CPU: threads that one instruction may use
};

LAMINA_API std::string text(Device device);                     // "cpu:0", "gpu:1", "null:h100", "null:h100:3"
LAMINA_API Device parse_device(std::string_view text);          // "gpu" means "gpu:0"; throws not_found. Does not ask whether it exists.
LAMINA_API const std::vector<DeviceProperties>& null_models();  // name is "a100", "h100", ...
inline std::ostream& operator<<(std::ostream& out, Device d) { return out << text(d); }

}  // namespace lamina
