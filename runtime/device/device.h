// Device: where a tensor is or an instruction runs. A small value: comparable and printable.
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
  uint8_t model = 0;  // of a null device: the card that it simulates (index into null_models())
  int16_t index = 0;
  auto operator<=>(const Device&) const = default;
};

// In a traced graph: the planner chooses the node's device (graph/compile/place.h). Nothing runs on it.
inline constexpr Device kAutomatic{DeviceKind::cpu, 0, -1};

// Properties of a device that planning needs.
struct DeviceProperties {
  std::string name;
  int64_t memory = 0;                   // bytes
  int compute_capability = 0;           // 90 for sm_90; 0 on a CPU
  int multiprocessors = 0;              // SMs; 0 on a CPU
  int64_t shared_memory_per_block = 0;  // that a block can request; 0 on a CPU
  int threads = 1;                      // on a CPU: threads per instruction
};

LAMINA_API std::string text(Device device);                     // "cpu:0", "gpu:1", "null:h100", "null:h100:3", "auto"
LAMINA_API Device parse_device(std::string_view text);          // "gpu" means "gpu:0"; throws not_found. Does not check that it exists.
LAMINA_API const std::vector<DeviceProperties>& null_models();  // name is "a100", "h100", ...
inline std::ostream& operator<<(std::ostream& out, Device d) { return out << text(d); }

}  // namespace lamina
