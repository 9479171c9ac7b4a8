// A Backend whose GPU is the emulation: it uses host memory, and launches are synchronous.
#pragma once
#include <map>

#include "runtime/core/mutex.h"
#include "runtime/device/backend.h"

namespace lamina::tests {

// A device whose streams run everything at once.
class WithoutStreams : public Backend {
 public:
  Stream default_stream(Device device) override { return {this, device, nullptr}; }
  Stream create_stream(Device device) override { return {this, device, nullptr}; }
  void destroy_stream(Stream&) override {}
  Event create_event(Device) override { return {this, nullptr}; }
  void destroy_event(Event&) override {}
  void record(Stream&, Event&) override {}
  void wait(Stream&, Event&) override {}
};

class EmulatedBackend final : public WithoutStreams {
 public:
  static EmulatedBackend& one();

  const char* name() const override { return "emulated"; }
  int device_count() override { return 1; }
  std::string unavailable_reason() override { return ""; }
  DeviceProperties properties(Device) override;

  void synchronize(Stream&) override;

  void* allocate(Stream&, size_t bytes) override;
  void free(Stream&, void* data, size_t bytes) override;  // fails the test for memory that it did not allocate
  void copy(Stream&, void* to, const void* from, size_t bytes, CopyKind) override;
  void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) override;
  FaultSite fault_site(Stream&, DescribeFault describe, const std::string& about = {}) override;

  size_t bytes_in_use();
  int launches() const { return launches_; }

 private:
  Mutex mutex_;
  std::map<void*, size_t> blocks_;
  Fault fault_;
  FaultLog log_;
  int launches_ = 0;
  const char* instruction_ = "";
  SourceLine line_;
};

// Until it is destroyed, gpu:0 is the emulation.
class EmulatedGpu {
 public:
  EmulatedGpu() { replace_backend(DeviceKind::gpu, &EmulatedBackend::one()); }
  ~EmulatedGpu() { replace_backend(DeviceKind::gpu, nullptr); }
  EmulatedGpu(const EmulatedGpu&) = delete;
};

}  // namespace lamina::tests
