// The CUDA backend of a build without nvcc: no devices, and a reason.
#include "runtime/core/error.h"
#include "runtime/device/backend.h"
#include "runtime/device/profiler.h"

namespace lamina {
namespace {

constexpr const char* kReason =
    "Lamina was built without CUDA. Build it again with nvcc on PATH (./dev setup --cuda brings one) and without LAMINA_CUDA=OFF";

class NoCuda final : public Backend {
 public:
  const char* name() const override { return "cuda"; }
  int device_count() override { return 0; }
  std::string unavailable_reason() override { return kReason; }
  DeviceProperties properties(Device device) override { refuse(device); }
  Stream default_stream(Device device) override { refuse(device); }
  Stream create_stream(Device device) override { refuse(device); }
  void destroy_stream(Stream&) override {}
  Event create_event(Device device) override { refuse(device); }
  void destroy_event(Event&) override {}
  void record(Stream& stream, Event&) override { refuse(stream.device); }
  void wait(Stream& stream, Event&) override { refuse(stream.device); }
  void synchronize(Stream& stream) override { refuse(stream.device); }
  void* allocate(Stream& stream, size_t) override { refuse(stream.device); }
  void free(Stream&, void*, size_t) override {}
  void copy(Stream& stream, void*, const void*, size_t, CopyKind) override { refuse(stream.device); }
  void launch(Stream& stream, const Kernel&, const KernelCall&, const char*) override { refuse(stream.device); }

 private:
  [[noreturn]] static void refuse(Device device) {
    throw Error(
        ErrorKind::device,
        {.what = cat("there is no device ", text(device)), .where = "cuda", .why = kReason, .fix = "use 'cpu', or build with CUDA"});
  }
};

}  // namespace

void profiler::detail::cuda_capture(bool) {}

Backend& cuda_backend() {
  static auto* backend = new NoCuda;
  return *backend;
}

}  // namespace lamina
