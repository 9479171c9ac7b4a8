#include "runtime/device/buffer.h"

#include <cstring>

#include "runtime/core/error.h"
#include "runtime/device/memory.h"

namespace lamina {
namespace {

constexpr size_t kNamed = 3;  // holders in an error

// The same error with the device's largest holders.
Error with_holders(const Error& e, Device device) {
  Error::Parts parts = e.parts;
  std::string list;
  for (const auto& [what, bytes] : memory::largest(device, kNamed)) list += cat(list.empty() ? "" : ", ", what, " with ", bytes);
  if (!list.empty()) parts.why += cat("; the largest: ", list);
  return Error(e.kind, std::move(parts));
}

struct Taken {  // until the buffer has its memory
  Device device;
  size_t bytes;
  bool kept = false;
  Taken(Device d, size_t b) : device(d), bytes(b) { memory::take(d, b); }
  ~Taken() {
    if (!kept) memory::give_back(device, bytes);
  }
};

}  // namespace

Buffer::Buffer(Device device, size_t bytes) : charge_(bytes), device_(device), bytes_(bytes) {
  try {
    Taken taken(device, bytes);
    Stream stream = backend_of(device).default_stream(device);
    data_ = backend_of(device).allocate(stream, bytes);
    taken.kept = true;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::out_of_memory) throw;
    throw with_holders(e, device);
  }
}

Buffer::Buffer(Device device, void* data, size_t bytes, std::shared_ptr<void> owner)
    : charge_(0), device_(device), data_(data), bytes_(bytes), owner_(std::move(owner)) {}

Buffer::~Buffer() {
  if (owner_) return;
  memory::give_back(device_, bytes_);
  if (!data_) return;
  try {
    Stream stream = backend_of(device_).default_stream(device_);
    backend_of(device_).free(stream, data_, bytes_);
  } catch (...) {  // a destructor cannot throw; the stream keeps the error
  }
}

namespace {
// Later work on the stream starts after everything started on the other device.
void wait_for(Device other, Stream& stream) {
  struct OwnedEvent {
    Event event;
    ~OwnedEvent() { event.backend->destroy_event(event); }
  } owned{stream.backend->create_event(other)};
  Stream source = stream.backend->default_stream(other);
  stream.backend->record(source, owned.event);
  stream.backend->wait(stream, owned.event);
}

void copy(Device on, void* to, const void* from, size_t bytes, CopyKind kind) {
  if (bytes == 0) return;
  Backend& backend = backend_of(on);
  Stream stream = backend.default_stream(on);
  backend.copy(stream, to, from, bytes, kind);
  if (kind != CopyKind::to_device) backend.synchronize(stream);  // otherwise stream order suffices
}
}  // namespace

BufferRef copy_to(Device device, const BufferRef& buffer, size_t bytes) {
  auto out = std::make_shared<Buffer>(device, bytes);
  bool host_source = buffer->device().kind == DeviceKind::cpu, host_target = device.kind == DeviceKind::cpu;
  if (host_target)
    copy_to_host(out->data(), buffer, 0, bytes);
  else if (host_source)
    copy(device, out->data(), buffer->data(), bytes, CopyKind::to_device);
  else {
    Stream stream = backend_of(device).default_stream(device);
    if (buffer->device() != device && buffer->device().kind == device.kind) wait_for(buffer->device(), stream);
    copy(device, out->data(), buffer->data(), bytes, CopyKind::within_device);
  }
  return out;
}

void copy_to_host(void* to, const BufferRef& buffer, size_t offset, size_t bytes) {
  const char* from = static_cast<const char*>(buffer->data()) + offset;
  if (buffer->device().kind == DeviceKind::cpu) {
    if (bytes) std::memcpy(to, from, bytes);
  } else {
    copy(buffer->device(), to, from, bytes, CopyKind::to_host);
  }
}

BufferRef copy_from_host(Device device, const void* from, size_t bytes) {
  auto out = std::make_shared<Buffer>(device, bytes);
  if (device.kind == DeviceKind::cpu) {
    if (bytes) std::memcpy(out->data(), from, bytes);
  } else {
    copy(device, out->data(), from, bytes, CopyKind::to_device);
  }
  return out;
}

}  // namespace lamina
