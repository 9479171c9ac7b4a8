// Backend: what the runtime needs from a device kind. One subclass per kind; nothing else asks "is it CUDA?".
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/fault.h"
#include "runtime/device/kernel.h"
#include "runtime/device/library_report.h"
#include "runtime/device/stream.h"

namespace lamina {

enum class CopyKind : uint8_t { within_device, to_device, to_host };

// Launches of one device that are run again and again, kept in the device's own form (a CUDA graph). For one caller at a time.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Does what `launches(streams)` would do, behind what is on the first stream and before what follows there; who uses the others for more
  // orders them with it. `launches` may be called with other streams, or not at all: of its own it must depend on `addresses` only, which
  // are all those that it uses. What it throws when it is launched one by one is thrown on.
  virtual void run(std::span<Stream> streams, std::span<void* const> addresses, const std::function<void(std::span<Stream>)>& launches) = 0;
  virtual std::string why_not() const = 0;  // why the launches are started one by one, for good; "" when they are not
};

class LAMINA_API Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual int device_count() = 0;
  virtual std::string unavailable_reason() = 0;  // "" when device_count() > 0
  virtual DeviceProperties properties(Device device) = 0;
  virtual std::vector<LibraryReport> libraries() { return {}; }  // looked for again on every call

  virtual Stream default_stream(Device device) = 0;  // made on first use, lives as long as the process
  virtual Stream create_stream(Device device) = 0;
  virtual void destroy_stream(Stream& stream) = 0;
  virtual Event create_event(Device device) = 0;
  virtual void destroy_event(Event& event) = 0;
  virtual void record(Stream& stream, Event& event) = 0;
  virtual void wait(Stream& stream, Event& event) = 0;  // what follows on the stream starts after the event
  virtual void synchronize(Stream& stream) = 0;         // throws the stream's first error, once

  virtual void* allocate(Stream& stream, size_t bytes) = 0;  // 64-byte aligned; throws out_of_memory with asked, free, cached
  virtual void free(Stream& stream, void* data, size_t bytes) = 0;
  // In the stream's order. When it returns, the host's memory may be changed (to_device), or has its bytes (to_host).
  virtual void copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) = 0;

  // The only way a kernel starts. `name` is the instruction's, for profilers and errors. The views and arguments must stay
  // alive until the stream has been synchronized. A launch may be recorded and run again with the same addresses: what else it
  // takes from the host must not change from call to call.
  virtual void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) = 0;
  // Called by a kernel while it is launched: where it reports an element that it cannot use, as an index out of range, once it has run.
  // The first report on a stream's device is thrown by the next wait, as `describe` words it. Backends whose kernels throw say nothing.
  virtual FaultSite fault_site(Stream& stream, Error (*describe)(const Fault&));
  // Null where launches gain nothing by it. Destroyed before the streams that it ran on.
  virtual std::unique_ptr<LaunchGraph> launch_graph(Device device);

  // While launches are recorded: device memory that the recording keeps, the same for the same owner, and that begins as `contents`. Null
  // when nothing is being recorded.
  virtual void* memory_of_recording(const void* owner, std::span<const char> contents);

  // Whether a library of the maker's (cuDNN) is there and is to do so much work on images: asked where an op takes another form for it.
  virtual bool image_library_serves(double /*operations*/) { return false; }
};

LAMINA_API Backend& cpu_backend();
LAMINA_API Backend& cuda_backend();
LAMINA_API Backend& null_backend();  // accepts every call, runs nothing, keeps a record
LAMINA_API Backend& backend_of(DeviceKind kind);
// For tests: `backend` takes the place of the kind's own until it is null.
LAMINA_API void replace_backend(DeviceKind kind, Backend* backend);
inline Backend& backend_of(Device device) { return backend_of(device.kind); }

// What the null backend was asked to do, in order ("allocate 4096 bytes on null:h100", "launch dense on null:h100", ...).
LAMINA_API std::vector<std::string> take_null_record();

// Throws device-unavailable with the backend's reason when the device does not exist.
LAMINA_API void require_device(Device device);

}  // namespace lamina
