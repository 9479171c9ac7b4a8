// Memory of devices: how much Lamina's buffers take, a limit, and what the largest of them are for.
//
//   memory::set_limit(parse_device("gpu:0"), int64_t(4) << 30);
//   memory::stats(parse_device("gpu:0")).peak
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace lamina::memory {

// Bytes on one device.
struct Stats {
  int64_t live = 0;   // of all buffers: tensors, Variables, and the temporaries that functions keep
  int64_t peak = 0;   // the most that were live at once since the start, or since reset_peak()
  int64_t pool = 0;   // freed, and kept by the allocator for later
  int64_t limit = 0;  // of what may be live: that of set_limit(), else the device's memory
};
LAMINA_API Stats stats(Device device);  // throws device when there is none
LAMINA_API void reset_peak(Device device);
// A buffer that would exceed it throws out_of_memory, which names the largest holders. None: the device's memory. Throws invalid_argument
// for negative numbers.
LAMINA_API void set_limit(Device device, std::optional<int64_t> bytes);
LAMINA_API int64_t limit(Device device);  // what was set, else the device's memory

// What holds memory, for the texts of errors, while it lives: "Variable 'dense/kernel'".
class LAMINA_API Holder {
 public:
  Holder(std::string what, Device device, int64_t bytes);
  ~Holder();
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  void resize(int64_t bytes);

  struct Seen {
    std::string what;
    int64_t bytes = 0;
  };

 private:
  friend std::vector<Seen> largest(Device, size_t);
  const std::string what_;
  const Device device_;
  int64_t bytes_;
  Holder *before_ = nullptr, *after_ = nullptr;
};
// The largest holders on the device, largest first, those of one name together.
LAMINA_API std::vector<Holder::Seen> largest(Device device, size_t count);

// For Buffer: counts, within the limit.
void take(Device device, size_t bytes);
void give_back(Device device, size_t bytes) noexcept;
// For a backend: asks how much its pool keeps.
LAMINA_API void tell_pool(DeviceKind kind, int64_t (*bytes)(Device));

}  // namespace lamina::memory
