// The CPU backend with counted tensor memory that can be made to fail.
#pragma once
#include <atomic>

#include "runtime/device/backend.h"

namespace lamina::tests {

class FailingBackend final : public Backend {
 public:
  static void install();  // for the rest of the process
  static size_t bytes_in_use();

  const char* name() const override { return real_.name(); }
  int device_count() override { return real_.device_count(); }
  std::string unavailable_reason() override { return real_.unavailable_reason(); }
  DeviceProperties properties(Device device) override { return real_.properties(device); }
  Stream default_stream(Device device) override { return real_.default_stream(device); }
  Stream create_stream(Device device) override { return real_.create_stream(device); }
  void destroy_stream(Stream& stream) override { real_.destroy_stream(stream); }
  Event create_event(Device device) override { return real_.create_event(device); }
  void destroy_event(Event& event) override { real_.destroy_event(event); }
  void record(Stream& stream, Event& event) override { real_.record(stream, event); }
  void wait(Stream& stream, Event& event) override { real_.wait(stream, event); }
  void synchronize(Stream& stream) override { real_.synchronize(stream); }
  void* allocate(Stream& stream, size_t bytes) override;
  void free(Stream& stream, void* data, size_t bytes) override;
  void copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) override { real_.copy(stream, to, from, bytes, kind); }
  void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) override {
    real_.launch(stream, kernel, call, name);
  }

 private:
  Backend& real_ = cpu_backend();
  std::atomic<size_t> in_use_{0};
};

}  // namespace lamina::tests
