// Finds the CUDA backend. It is in a library of its own, liblamina_cuda.so, which is opened when a GPU is first asked for; programs that
// link it, as the tests do, have it from the start.
#include <atomic>

#include "runtime/core/beside.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina {
namespace {

// The backend of a process without that library: no devices, and a reason.
class NoCuda final : public Backend {
 public:
  explicit NoCuda(std::string reason) : reason_(std::move(reason)) {}
  const char* name() const override { return "cuda"; }
  int device_count() override { return 0; }
  std::string unavailable_reason() override { return reason_; }
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
  [[noreturn]] void refuse(Device device) const {
    throw Error(
        ErrorKind::device,
        {.what = cat("there is no device ", text(device)), .where = "cuda", .why = reason_, .fix = "use 'cpu', or build with CUDA"});
  }
  const std::string reason_;
};

std::atomic<Backend& (*)()> provided = nullptr;

// Opens the library that lies beside this one. Returns why there is none, or "".
std::string open_cuda() {
  const OpenedLibrary library = open_library(beside_this_library("liblamina_cuda.so"));
  if (library.missing)
    return cat("Lamina was built without CUDA: ", library.why,
               ". Build it again with nvcc on PATH (./dev setup --cuda brings one) and without LAMINA_CUDA=OFF");
  return library.handle ? "" : cat("the library of the GPU's kernels cannot be opened: ", library.why);
}

}  // namespace

void provide_cuda(Backend& (*backend)()) { provided = backend; }

Backend& cuda_backend() {
  // Never destroyed: tensors may outlive every other static object.
  static Backend& backend = []() -> Backend& {
    std::string why;
    if (!provided) why = open_cuda();
    if (auto* make = provided.load()) return make();
    return *new NoCuda(std::move(why));
  }();
  return backend;
}

}  // namespace lamina
