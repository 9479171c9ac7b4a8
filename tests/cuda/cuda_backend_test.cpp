#include "runtime/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "runtime/device/buffer.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {
namespace {

constexpr Device gpu(int index) { return {.kind = DeviceKind::gpu, .model = 0, .index = static_cast<int16_t>(index)}; }

class Cuda : public testing::Test {
 protected:
  Cuda() {
    unsetenv("CUDA_VISIBLE_DEVICES");
    FakeCuda::reset();
  }
  ~Cuda() override { FakeCuda::reset(); }

  template <class F>
  Error error_from(F&& f) {
    try {
      f();
    } catch (const Error& e) {
      return e;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::internal, {});
  }
  int times(const std::string& call) {
    return static_cast<int>(std::count_if(fake.calls.begin(), fake.calls.end(), [&](const std::string& c) { return c.starts_with(call); }));
  }

  FakeCuda& fake = FakeCuda::now();
  CudaBackend backend{fake_api()};
};

TEST_F(Cuda, MakesNoCallsBeforeTheFirstQuery) { EXPECT_TRUE(fake.calls.empty()); }

TEST_F(Cuda, CountsDevicesOnce) {
  EXPECT_EQ(backend.device_count(), 2);
  EXPECT_EQ(backend.unavailable_reason(), "");
  EXPECT_EQ(times("device_count"), 1);
}

TEST_F(Cuda, SaysThatThereIsNoDriver) {
  fake.driver = 0;
  fake.count_status = cudaErrorInsufficientDriver;  // what static cudart answers then
  EXPECT_EQ(backend.device_count(), 0);
  EXPECT_TRUE(backend.unavailable_reason().starts_with("there is no NVIDIA driver")) << backend.unavailable_reason();
}

TEST_F(Cuda, SaysThatTheDriverIsTooOld) {
  fake.driver = 12040;
  fake.runtime = 13010;
  fake.count_status = cudaErrorInsufficientDriver;
  EXPECT_EQ(backend.unavailable_reason(),
            "the NVIDIA driver is too old: it supports CUDA 12.4 and Lamina was built with CUDA 13.1. Update the driver");
}

TEST_F(Cuda, SaysThatThereIsNoDevice) {
  fake.count_status = cudaErrorNoDevice;
  EXPECT_TRUE(backend.unavailable_reason().starts_with("there is a driver, but it finds no GPU")) << backend.unavailable_reason();
}

TEST_F(Cuda, SaysThatZeroDevicesAreNone) {
  fake.devices = 0;
  EXPECT_EQ(backend.device_count(), 0);
  EXPECT_TRUE(backend.unavailable_reason().starts_with("there is a driver, but it finds no GPU")) << backend.unavailable_reason();
}

TEST_F(Cuda, SaysThatTheEnvironmentHidesTheDevices) {
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  fake.count_status = cudaErrorNoDevice;
  EXPECT_NE(backend.unavailable_reason().find("CUDA_VISIBLE_DEVICES is '7'"), std::string::npos) << backend.unavailable_reason();
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(Cuda, SaysThatTheProcessWasForked) {
  fake.count_status = cudaErrorInitializationError;
  EXPECT_NE(backend.unavailable_reason().find("forked"), std::string::npos);
}

TEST_F(Cuda, ReportsTheDriversMessage) {
  fake.count_status = cudaErrorSystemNotReady;
  EXPECT_NE(backend.unavailable_reason().find("cudaErrorSystemNotReady (802)"), std::string::npos) << backend.unavailable_reason();
}

TEST_F(Cuda, RefusesADeviceThatDoesNotExist) {
  const Error e = error_from([&] { backend.default_stream(gpu(2)); });
  EXPECT_EQ(e.kind, ErrorKind::device);
  EXPECT_EQ(e.parts.what, "there is no device gpu:2");
  EXPECT_EQ(e.parts.why, "this machine has 2 GPUs, counted from 0");
}

TEST_F(Cuda, RefusesEveryDeviceWithTheReasonWhereThereIsNone) {
  fake.driver = 0;
  fake.count_status = cudaErrorInsufficientDriver;
  const Error e = error_from([&] { backend.properties(gpu(0)); });
  EXPECT_EQ(e.kind, ErrorKind::device);
  EXPECT_EQ(e.parts.why, backend.unavailable_reason());
}

TEST_F(Cuda, ReadsProperties) {
  const DeviceProperties p = backend.properties(gpu(0));
  EXPECT_EQ(p.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(p.memory, int64_t{80} << 30);
  EXPECT_EQ(p.compute_capability, 90);
  EXPECT_EQ(p.multiprocessors, 132);
  EXPECT_EQ(p.shared_memory_per_block, 232448);
  EXPECT_EQ(backend.properties(gpu(1)).compute_capability, 80);
}

TEST_F(Cuda, MakesOneDefaultStreamPerDeviceOnTheRightDevice) {
  const Stream a = backend.default_stream(gpu(0)), b = backend.default_stream(gpu(1));
  EXPECT_EQ(a, backend.default_stream(gpu(0)));
  EXPECT_NE(a, b);
  EXPECT_EQ(times("stream_create on 0"), 1);
  EXPECT_EQ(times("stream_create on 1"), 1);
  EXPECT_EQ(fake.current, 0) << "the current device of the caller was changed";
}

TEST_F(Cuda, TriesAgainAfterADeviceFailedToOpen) {
  fake.fail["pool_create"] = cudaErrorUnknown;
  error_from([&] { backend.default_stream(gpu(0)); });
  fake.fail.clear();
  backend.default_stream(gpu(0));
  EXPECT_EQ(times("stream_create"), 1);
}

TEST_F(Cuda, OrdersStreamsByEvents) {
  Stream a = backend.create_stream(gpu(0)), b = backend.create_stream(gpu(0));
  Event event = backend.create_event(gpu(0));
  fake.calls.clear();
  backend.record(a, event);
  backend.wait(b, event);
  EXPECT_EQ(fake.calls, (std::vector<std::string>{"event_record #3 on #1", "stream_wait #2 for #3"}));
  backend.destroy_event(event);
  backend.destroy_stream(a);
  backend.destroy_stream(b);
  EXPECT_EQ(a.native, nullptr);
  EXPECT_EQ(times("stream_destroy"), 2);
  EXPECT_EQ(times("event_destroy"), 1);
}

TEST_F(Cuda, CopiesInEveryDirection) {
  Stream stream = backend.default_stream(gpu(1));
  const std::vector<float> values = {1, 2, 3};
  void* data = backend.allocate(stream, 12);
  void* other = backend.allocate(stream, 12);
  fake.calls.clear();
  std::vector<float> back(3);
  backend.copy(stream, data, values.data(), 12, CopyKind::to_device);
  backend.copy(stream, other, data, 12, CopyKind::within_device);
  backend.copy(stream, back.data(), other, 12, CopyKind::to_host);
  backend.copy(stream, back.data(), other, 0, CopyKind::to_host);
  EXPECT_EQ(back, values);
  EXPECT_EQ(times(cat("copy 12 kind ", int{cudaMemcpyHostToDevice}, " on 1")), 1);
  EXPECT_EQ(times(cat("copy 12 kind ", int{cudaMemcpyDeviceToDevice}, " on 1")), 1);
  EXPECT_EQ(times(cat("copy 12 kind ", int{cudaMemcpyDeviceToHost}, " on 1")), 1);
  EXPECT_EQ(times("copy"), 3);
  backend.free(stream, data, 12);
  backend.free(stream, other, 12);
  EXPECT_EQ(fake.used, 0u);
}

// The fake runs unordered work in any order.
TEST_F(Cuda, ACopyBetweenDevicesWaitsForTheSourcesStream) {
  replace_backend(DeviceKind::gpu, &backend);
  for (unsigned seed = 0; seed < 50; ++seed) {
    fake.work.random.seed(seed);
    const std::string old(64, 'o'), made(64, 'm');
    const BufferRef from = copy_from_host(gpu(0), old.data(), 64), other = copy_from_host(gpu(0), made.data(), 64);
    Stream stream = backend.default_stream(gpu(0));
    backend.copy(stream, from->data(), other->data(), 64, CopyKind::within_device);  // like a kernel that has not run yet
    const BufferRef moved = copy_to(gpu(1), from, 64);
    std::string found(64, ' ');
    copy_to_host(found.data(), moved, 0, 64);
    EXPECT_EQ(found, made) << "seed " << seed;
  }
  EXPECT_EQ(times("event_destroy"), 50) << "one for each copy";
  replace_backend(DeviceKind::gpu, nullptr);
}

TEST_F(Cuda, AllocatesNothingForZeroBytes) {
  Stream stream = backend.default_stream(gpu(0));
  EXPECT_EQ(backend.allocate(stream, 0), nullptr);
  backend.free(stream, nullptr, 0);
  EXPECT_EQ(times("allocate"), 0);
}

TEST_F(Cuda, FreesCachedMemoryBeforeOutOfMemory) {
  Stream stream = backend.default_stream(gpu(0));
  void* first = backend.allocate(stream, 700'000);
  backend.free(stream, first, 700'000);
  void* second = backend.allocate(stream, 800'000);  // fits only after the cache is freed
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(times("pool_trim"), 1);
  backend.free(stream, second, 800'000);
}

TEST_F(Cuda, OutOfMemoryNamesRequestedFreeUsedAndCached) {
  Stream stream = backend.default_stream(gpu(0));
  void* first = backend.allocate(stream, 600'000);
  const Error e = error_from([&] { backend.allocate(stream, 500'000); });
  EXPECT_EQ(e.kind, ErrorKind::out_of_memory);
  EXPECT_EQ(e.parts.what, "out of memory on gpu:0: asked for 500000 bytes");
  EXPECT_EQ(e.parts.why, "free: 448576 of 1048576 bytes; used by Lamina: 600000; cached by Lamina: 0");
  void* third = backend.allocate(stream, 400'000);  // the process continues
  backend.free(stream, third, 400'000);
  backend.free(stream, first, 600'000);
}

TEST_F(Cuda, WorksWithoutMemoryPools) {
  fake.has_pools = false;
  Stream stream = backend.default_stream(gpu(0));
  void* data = backend.allocate(stream, 64);
  backend.free(stream, data, 64);
  EXPECT_EQ(times("allocate 64"), 1);
  EXPECT_EQ(times("pool_create"), 0);
  EXPECT_EQ(error_from([&] { backend.allocate(stream, 2 << 20); }).kind, ErrorKind::out_of_memory);
}

TEST_F(Cuda, ThrowsTheFirstErrorOfAFreeAtTheNextWaitOnce) {
  Stream stream = backend.default_stream(gpu(0));
  void* data = backend.allocate(stream, 64);
  fake.fail["free_to_pool"] = cudaErrorInvalidValue;
  EXPECT_NO_THROW(backend.free(stream, data, 64));
  EXPECT_NO_THROW(backend.free(stream, data, 64));
  EXPECT_EQ(error_from([&] { backend.synchronize(stream); }).parts.what, "cuda: cannot free memory");
  EXPECT_NO_THROW(backend.synchronize(stream));
}

TEST_F(Cuda, IgnoresFailedFreesAtProcessExit) {
  Stream stream = backend.default_stream(gpu(0));
  void* data = backend.allocate(stream, 64);
  fake.fail["free_to_pool"] = cudaErrorCudartUnloading;
  backend.free(stream, data, 64);
  EXPECT_NO_THROW(backend.synchronize(stream));
}

TEST_F(Cuda, SaysThatAKernelFailedAndThatTheProcessMustRestart) {
  Stream stream = backend.default_stream(gpu(1));
  fake.fail["stream_synchronize"] = cudaErrorIllegalAddress;
  const Error e = error_from([&] { backend.synchronize(stream); });
  EXPECT_EQ(e.kind, ErrorKind::device);
  EXPECT_EQ(e.parts.where, "gpu:1");
  EXPECT_TRUE(e.parts.why.starts_with("cudaErrorIllegalAddress (700)")) << e.parts.why;
  EXPECT_TRUE(e.parts.fix.starts_with("restart the process")) << e.parts.fix;
}

TEST_F(Cuda, LaunchesOnTheDeviceOfTheStream) {
  Stream stream = backend.default_stream(gpu(1));
  const Kernel kernel{.run = [](const KernelCall& call) { *static_cast<int*>(const_cast<void*>(call.args)) = FakeCuda::now().current; },
                      .args = nullptr};
  int device = -1;
  const KernelCall call{.stream = stream, .args = &device, .in = {}, .out = {}};
  backend.launch(stream, kernel, call, "dense");
  EXPECT_EQ(device, 1);
}

TEST_F(Cuda, NamesTheInstructionWhoseLaunchFailed) {
  Stream stream = backend.default_stream(gpu(0));
  const Kernel kernel{.run = [](const KernelCall&) { FakeCuda::now().last = cudaErrorInvalidConfiguration; }, .args = nullptr};
  const KernelCall call{.stream = stream, .args = nullptr, .in = {}, .out = {}};
  EXPECT_EQ(error_from([&] { backend.launch(stream, kernel, call, "dense"); }).parts.what, "cuda: cannot launch dense");
  EXPECT_EQ(error_from([&] { backend.launch(stream, Kernel{}, call, "sort"); }).parts.what, "sort: there is no kernel for a GPU");
}

TEST_F(Cuda, ThrowsWhatAKernelReportedAtTheNextWaitWithItsInstructionAndLine) {
  Stream stream = backend.default_stream(gpu(0));
  const auto run = [](const KernelCall& call) {
    const FaultSite site = call.stream.backend->fault_site(call.stream, [](const Fault& f, const std::string&) {
      return Error(ErrorKind::index, {.what = cat("index ", f.value), .where = "indices", .why = "", .fix = ""});
    });
    ASSERT_NE(site.record, nullptr);
    *site.record = {.launch = site.launch, .ready = 1, .which = 0, .value = 7, .limit = 5, .place = 0};
  };
  backend.launch(stream, {.run = run, .args = nullptr}, {stream, nullptr, {}, {}, source_line("train.py", 12)}, "gather");
  const Error e = error_from([&] { backend.synchronize(stream); });
  EXPECT_EQ(e.kind, ErrorKind::index);
  EXPECT_EQ(e.parts.what, "index 7");
  EXPECT_NE(e.parts.where.find("instruction gather"), std::string::npos) << e.parts.where;
  EXPECT_NE(e.parts.where.find("train.py:12"), std::string::npos) << e.parts.where;
  backend.synchronize(stream);  // thrown once
}

// A recorded launch reports under the same number much later, after thousands of other launches.
TEST_F(Cuda, LateFaultsNameTheRightInstruction) {
  Stream stream = backend.default_stream(gpu(0));
  static FaultSite site;
  const Kernel kernel{.run =
                          [](const KernelCall& call) {
                            site = call.stream.backend->fault_site(call.stream, [](const Fault& f, const std::string&) {
                              return Error(ErrorKind::index, {.what = cat("index ", f.value), .where = "", .why = "", .fix = ""});
                            });
                          },
                      .args = nullptr};
  backend.launch(stream, kernel, {stream, nullptr, {}, {}, source_line("train.py", 1)}, "gather");
  const FaultSite first = site;
  for (int i = 0; i < 10'000; ++i)
    backend.launch(stream, kernel, {stream, nullptr, {}, {}, source_line("train.py", 2 + i % 5000)}, "scatter");
  *first.record = {.launch = first.launch, .ready = 1, .which = 0, .value = 7, .limit = 5, .place = 0};
  const Error e = error_from([&] { backend.synchronize(stream); });
  EXPECT_NE(e.parts.where.find("instruction gather"), std::string::npos) << e.parts.where;
  EXPECT_NE(e.parts.where.find("train.py:1"), std::string::npos) << e.parts.where;
}

// Every cudart call fails in turn with every kind of error: each time a typed error, nothing leaks, and everything works afterwards.
TEST_F(Cuda, SurvivesEveryCallFailingInEveryWay) {
  struct Everything {
    CudaBackend& backend;
    void operator()() const {
      Stream stream = backend.create_stream(gpu(0)), other = backend.default_stream(gpu(0));
      Event event{};
      void* data = nullptr;
      const auto clean = [&] {
        if (data) backend.free(stream, data, 64);
        backend.destroy_event(event);
        try {
          backend.destroy_stream(stream);
        } catch (const Error&) {  // thrown by the failing call
        }
      };
      try {
        backend.properties(gpu(0));
        event = backend.create_event(gpu(0));
        data = backend.allocate(stream, 64);
        char host[64] = {};
        backend.copy(stream, data, host, 64, CopyKind::to_device);
        backend.record(stream, event);
        backend.wait(other, event);
        backend.launch(stream, {.run = [](const KernelCall&) {}, .args = nullptr}, {stream, nullptr, {}, {}}, "nothing");
        backend.synchronize(stream);
      } catch (...) {
        clean();
        throw;
      }
      clean();
    }
  };
  Everything{backend}();  // opened once, so that permanent state is known
  const size_t used = fake.used;
  std::set<std::string> names;
  for (const std::string& call : fake.calls) names.insert(call.substr(0, call.find(' ')));
  ASSERT_GE(names.size(), 15u);
  std::vector<cudaError_t> statuses;
  for (int code = 1; code < 1000; ++code)
    if (std::string(cudaGetErrorName(cudaError_t(code))) != "unrecognized error code") statuses.push_back(cudaError_t(code));
  ASSERT_GE(statuses.size(), 100u);
  const std::set<cudaError_t> always = {cudaErrorMemoryAllocation, cudaErrorInvalidValue, cudaErrorIllegalAddress, cudaErrorLaunchFailure,
                                        cudaErrorUnknown};
  const size_t stride = std::getenv("LAMINA_TEST_LONG") ? 1 : 10;  // a sample of errors for each call, covering all errors
  size_t turn = 0;
  for (const std::string& name : names)
    for (size_t s = 0, shift = turn++; s < statuses.size(); ++s) {
      const cudaError_t status = statuses[s];
      if ((s + shift) % stride != 0 && !always.count(status)) continue;
      SCOPED_TRACE(cat(name, ", ", cudaGetErrorName(status)));
      CudaBackend fresh(fake_api());
      fake.calls.clear();
      fake.fail = {{name, status}};
      try {
        Everything{fresh}();
      } catch (const Error& e) {
        EXPECT_TRUE(e.kind == ErrorKind::device || e.kind == ErrorKind::out_of_memory) << e.what();
        EXPECT_FALSE(e.parts.fix.empty());
      }
      fake.fail.clear();
      const auto made = [&](const char* call) { return times(call); };
      EXPECT_LE(made("event_create"), made("event_destroy") + 1) << "staging keeps one";
      if (name != "free_to_pool") {
        EXPECT_EQ(fake.used, used) << "memory was kept";
      }
      fake.used = used;
      EXPECT_NO_THROW(Everything{fresh}()) << "it does not work afterwards";
      EXPECT_EQ(fake.used, used);
    }
}

TEST_F(Cuda, FreesAPoolThatCannotBeSetUp) {
  fake.fail["pool_set"] = cudaErrorUnknown;
  error_from([&] { backend.default_stream(gpu(0)); });
  EXPECT_EQ(times("pool_destroy"), 1);
  fake.fail.clear();
  backend.default_stream(gpu(0));
  EXPECT_EQ(times("pool_create"), 2);
  EXPECT_EQ(times("host_allocate"), 1);
}

}  // namespace
}  // namespace lamina::cuda
