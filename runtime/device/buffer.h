// Buffer: a reference-counted allocation, shared by tensors.
#pragma once
#include <cstddef>
#include <memory>

#include "runtime/core/limits.h"
#include "runtime/device/backend.h"

namespace lamina {

class LAMINA_API Buffer {
 public:
  Buffer(Device device, size_t bytes);  // uninitialised memory on the device's default stream
  // Foreign memory (DLPack, NumPy), kept alive by `owner`.
  Buffer(Device device, void* data, size_t bytes, std::shared_ptr<void> owner);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool foreign() const { return owner_ != nullptr; }

 private:
  MemoryCharge charge_;
  Device device_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

using BufferRef = std::shared_ptr<Buffer>;

// Copies. On return the source may be changed; a copy on a device is complete in the order of its default stream.
LAMINA_API BufferRef copy_to(Device device, const BufferRef& buffer, size_t bytes);
LAMINA_API void copy_to_host(void* to, const BufferRef& buffer, size_t offset, size_t bytes);
LAMINA_API BufferRef copy_from_host(Device device, const void* from, size_t bytes);

}  // namespace lamina
