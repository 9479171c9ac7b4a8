// The CUDA backend on its fake, with every host and device allocation failing in turn.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "runtime/cuda/cuda_backend.h"
#include "tests/allocations/scenario.h"
#include "tests/cuda/combine_program.h"

namespace lamina::tests {
namespace {

using cuda::Case;
using cuda::FakeCuda;
using cuda::kGpu;
using cuda::Values;

class FailingCudaAllocations : public testing::Test {
 protected:
  FailingCudaAllocations() {
    FakeCuda::reset();
    set_outside([] { return FakeCuda::inside > 0; });
  }
  ~FailingCudaAllocations() override {
    set_outside(nullptr);
    replace_backend(DeviceKind::gpu, nullptr);
    FakeCuda::reset();
  }
};

// Each attempt has a backend of its own, whose device memory and graphs must be gone when its users are.
struct Device0 {
  Device0() { replace_backend(DeviceKind::gpu, &backend); }
  ~Device0() {
    FakeCuda::now().work.finish_all();
    replace_backend(DeviceKind::gpu, nullptr);
  }
  static std::string left() {
    FakeCuda& fake = FakeCuda::now();
    if (fake.used) return cat(fake.used, " bytes of the device are kept");
    if (!fake.work.graphs.empty()) return "a graph is kept";
    return fake.work.executables.empty() ? "" : "an executable graph is kept";
  }
  cuda::CudaBackend backend{cuda::fake_api()};
};

Scenario calls_of(const Case& c, int before) {
  return {.make =
              [c, before] {
                struct State {
                  Device0 device;
                  std::shared_ptr<exec::Program> program;
                  std::optional<exec::Executor> executor;
                  std::vector<Values> got;
                };
                auto s = std::make_shared<State>();
                s->program = c.program();
                if (before > 0) s->executor.emplace(s->program);
                for (int n = 0; n < before; ++n) cuda::call(*s->executor, cuda::values(float(-n)), cuda::values(2));
                return Work{[s] {
                              if (!s->executor) s->executor.emplace(s->program);
                              for (int n = 0; n < 4; ++n)
                                s->got.push_back(cuda::call(*s->executor, cuda::values(float(n)), cuda::values(2)));
                            },
                            [s, c]() -> std::string {
                              for (size_t n = 0; n < s->got.size(); ++n)
                                if (s->got[n] != c.expected(cuda::values(float(n)), cuda::values(2)))
                                  return cat("call ", n, " gave other values");
                              if (!s->executor) s->executor.emplace(s->program);
                              for (int n = 5; n < 9; ++n)
                                if (cuda::call(*s->executor, cuda::values(float(n)), cuda::values(3)) !=
                                    c.expected(cuda::values(float(n)), cuda::values(3)))
                                  return cat("afterwards call ", n, " gives other values");
                              s->executor.reset();
                              return Device0::left();
                            }};
              },
          .forget_eager_ops = false};
}

TEST_F(FailingCudaAllocations, ProgramsThatBecomeGraphs) {
  survives_failing_allocations(calls_of(cuda::chain(4, cuda::Combine::with_scratch), 0));
  survives_failing_allocations(calls_of(cuda::random_case(3, 2, 8), 0));
}

TEST_F(FailingCudaAllocations, ProgramsAlreadyRecordedAsGraphs) { survives_failing_allocations(calls_of(cuda::random_case(5, 3, 8), 3)); }

TEST_F(FailingCudaAllocations, ProgramsOnTwoBackends) {
  Case c = cuda::chain(3);
  c.streams = {kGpu, cuda::kCpu};
  // On the GPU into place 3, to the CPU's place 6, which computes place 7, and back.
  c.steps = {{0, 1, 3, {}, 0}, {3, 3, 6, {}, 1}, {6, 6, 7, {.a = 3}, 1}, {7, 7, 4, {}, 0}, {4, 1, 2, {}, 0}};
  survives_failing_allocations(calls_of(c, 0));
}

TEST_F(FailingCudaAllocations, EveryCallOfABackend) {
  survives_failing_allocations({.make =
                                    [] {
                                      auto device = std::make_shared<Device0>();
                                      auto all = [device] {
                                        Backend& backend = device->backend;
                                        Stream stream = backend.default_stream(kGpu);
                                        struct Made {
                                          Backend& backend;
                                          Stream stream, other;
                                          Event event;
                                          void* data = nullptr;
                                          ~Made() {
                                            if (data) backend.free(stream, data, 64);
                                            if (event.native) backend.destroy_event(event);
                                            if (other.native) backend.destroy_stream(other);
                                          }
                                        } made{.backend = backend, .stream = stream, .other = {}, .event = {}, .data = nullptr};
                                        made.other = backend.create_stream(kGpu);
                                        made.event = backend.create_event(kGpu);
                                        made.data = backend.allocate(stream, 64);
                                        char to[64] = {1, 2, 3}, from[64] = {};
                                        backend.copy(stream, made.data, to, 64, CopyKind::to_device);
                                        backend.record(stream, made.event);
                                        backend.wait(made.other, made.event);
                                        const Kernel kernel{.run = [](const KernelCall&) {}, .args = nullptr};
                                        backend.launch(stream, kernel, {stream, nullptr, {}, {}}, "nothing");
                                        backend.copy(stream, from, made.data, 64, CopyKind::to_host);
                                        backend.synchronize(stream);
                                        if (std::string_view(to, 64) != std::string_view(from, 64))
                                          throw std::logic_error("other bytes came back");
                                      };
                                      return Work{all, [all]() -> std::string { return all(), Device0::left(); }};
                                    },
                                .forget_eager_ops = false});
}

// Each device allocation fails in turn.
TEST_F(FailingCudaAllocations, DeviceMemory) {
  const Case c = cuda::random_case(3, 2, 8);
  FakeCuda& fake = FakeCuda::now();
  int64_t failed = 0, threw = 0;
  for (const char* name : {"allocate_from_pool", "host_allocate"})
    for (int index = 0;; ++index) {
      FakeCuda::reset();
      fake.failing_call = name, fake.failing_after = index;
      {
        Device0 device;
        std::optional<exec::Executor> s;
        for (int n = 0; n < 4; ++n) {
          try {
            if (!s) s.emplace(c.program());
            EXPECT_EQ(cuda::call(*s, cuda::values(float(n)), cuda::values(2)), c.expected(cuda::values(float(n)), cuda::values(2)));
          } catch (const Error& e) {
            ++threw;
            EXPECT_EQ(e.kind, ErrorKind::out_of_memory) << name << ' ' << index << ": " << e.what();
          }
        }
        fake.failing_call.clear();
        if (!s) s.emplace(c.program());
        for (int n = 4; n < 8; ++n)
          EXPECT_EQ(cuda::call(*s, cuda::values(float(n)), cuda::values(2)), c.expected(cuda::values(float(n)), cuda::values(2)));
      }
      EXPECT_EQ(Device0::left(), "") << name << ' ' << index;
      if (fake.failing_after >= 0 || HasFailure()) break;
      ++failed;
    }
  EXPECT_GE(failed, 8);
  std::printf("%d of the device's allocations made to fail, %d errors\n", int(failed), int(threw));
}

}  // namespace
}  // namespace lamina::tests
