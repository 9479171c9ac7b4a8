// Backend: the interface of a device kind, one subclass each. No other code asks "is it CUDA?".
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

// Launches of one device that run repeatedly, kept in the device's own form (a CUDA graph). Not thread-safe.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Does what `launches(streams)` would do, in the order of the first stream; a caller with more streams synchronises the others with it.
  // `launches` may be called with other streams, or not at all, so it must depend on `addresses` only, which lists every address that it
  // uses. If it runs directly, its exceptions are passed on.
  virtual void run(std::span<Stream> streams, std::span<void* const> addresses, const std::function<void(std::span<Stream>)>& launches) = 0;
  virtual std::string why_not() const = 0;  // why it launches one by one from now on; "" if it does not
};

class LAMINA_API Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual int device_count() = 0;
  virtual std::string unavailable_reason() = 0;  // "" when device_count() > 0
  virtual DeviceProperties properties(Device device) = 0;
  virtual std::vector<LibraryReport> libraries() { return {}; }  // searched anew on every call

  virtual Stream default_stream(Device device) = 0;  // made on first use, never destroyed
  virtual Stream create_stream(Device device) = 0;
  virtual void destroy_stream(Stream& stream) = 0;
  virtual Event create_event(Device device) = 0;
  virtual void destroy_event(Event& event) = 0;
  virtual void record(Stream& stream, Event& event) = 0;
  virtual void wait(Stream& stream, Event& event) = 0;  // later work on the stream starts after the event
  virtual void synchronize(Stream& stream) = 0;         // throws the stream's first error, once

  virtual void* allocate(Stream& stream, size_t bytes) = 0;  // 64-byte aligned; throws out_of_memory with requested, free and cached bytes
  virtual void free(Stream& stream, void* data, size_t bytes) = 0;
  // In stream order. On return, host memory may be changed (to_device) or has the bytes (to_host).
  virtual void copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) = 0;

  // The only way to start a kernel. `name` is the instruction's, for profilers and errors. Views and arguments must stay alive until the
  // stream has been synchronized. A launch may be recorded and repeated with the same addresses, so any other host data it uses must not
  // change between calls.
  virtual void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) = 0;
  // For a kernel's launch code: where the kernel reports a bad element, such as an index out of range. The next wait throws the first
  // report on the stream's device, worded by `describe` and `about`. Backends whose kernels throw return an empty site.
  virtual FaultSite fault_site(Stream& stream, DescribeFault describe, const std::string& about = {});
  // Null where launches gain nothing by it. Destroyed before the streams that it ran on.
  virtual std::unique_ptr<LaunchGraph> launch_graph(Device device);

  // While recording: device memory that lives with the recording, the same for the same owner, with initial `contents`. Otherwise null.
  virtual void* memory_of_recording(const void* owner, std::span<const char> contents);

  // Starts or stops capture by a profiler that waits for it (cudaProfilerStart). Throws device when it is refused.
  virtual void capture_range(bool /*on*/) {}
};

LAMINA_API Backend& cpu_backend();
// Splits the CPU into `count` virtual devices, cpu:0 to cpu:N-1, each with streams, threads and a share of the memory. Throws
// invalid_argument for a count that is not from 1 to 1024, and state once a device other than cpu:0 is in use, unless it is the present
// one.
LAMINA_API void split_cpu(int count);
LAMINA_API Backend& cuda_backend();
// For the library that has the CUDA backend, while it is loaded.
LAMINA_API void provide_cuda(Backend& (*backend)());
LAMINA_API Backend& null_backend();  // accepts every call, runs nothing, records all calls
LAMINA_API Backend& backend_of(DeviceKind kind);
// For tests: `backend` replaces the kind's own; null restores it.
LAMINA_API void replace_backend(DeviceKind kind, Backend* backend);
inline Backend& backend_of(Device device) { return backend_of(device.kind); }

// The calls made to the null backend, in order ("allocate 4096 bytes on null:h100", "launch dense on null:h100", ...).
LAMINA_API std::vector<std::string> take_null_record();

// Throws device with the backend's reason when the device does not exist.
LAMINA_API void require_device(Device device);

}  // namespace lamina
