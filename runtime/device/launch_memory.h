// Device memory for the duration of a launch.
#pragma once
#include <cstddef>

#include "runtime/core/limits.h"
#include "runtime/device/backend.h"

namespace lamina {

// Freed in stream order when it goes out of scope.
class LaunchMemory {
 public:
  LaunchMemory(Stream& stream, size_t bytes)
      : charge_(bytes), stream_(stream), bytes_(bytes), data_(stream.backend->allocate(stream, bytes)) {}
  ~LaunchMemory() { stream_.backend->free(stream_, data_, bytes_); }
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  MemoryCharge charge_;
  Stream& stream_;
  size_t bytes_;
  void* data_;
};

}  // namespace lamina
