// Ranks as threads, each with a fake GPU of its own and a fake NCCL between them.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu_kernel.h"
#include "runtime/cuda/nccl_peers.h"
#include "runtime/device/backend.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/threads.h"
#include "tests/cuda/fake_nccl_api.h"
#include "tests/cuda/library_fixture.h"

namespace lamina::cuda {

constexpr Device gpu(int index) { return {.kind = DeviceKind::gpu, .model = 0, .index = static_cast<int16_t>(index)}; }

// Device memory of a rank, copied from and to the host in stream order.
class OnGpu {
 public:
  OnGpu(Stream stream, size_t bytes) : stream_(stream), memory_(stream_, bytes) {}
  OnGpu(Stream stream, const std::vector<char>& bytes) : OnGpu(stream, bytes.size()) {
    stream_.backend->copy(stream_, data(), bytes.data(), bytes.size(), CopyKind::to_device);
  }
  char* data() const { return static_cast<char*>(memory_.data()); }
  std::vector<char> bytes() {
    std::vector<char> out(memory_.bytes());
    stream_.backend->copy(stream_, out.data(), data(), out.size(), CopyKind::to_host);
    stream_.backend->synchronize(stream_);
    return out;
  }

 private:
  Stream stream_;
  LaunchMemory memory_;
};

class CudaRanks : public LibraryFixture<FakeNccl> {
 protected:
  static constexpr int kGpus = 4;
  static constexpr Patience kSoon{std::chrono::duration<double>(60), std::chrono::duration<double>(0.1)};
  static constexpr Patience kLate{std::chrono::duration<double>(60), std::chrono::duration<double>(30)};

  void SetUp() override {
    LibraryFixture::SetUp();
    setenv("LAMINA_FLIGHT_RECORDS", testing::TempDir().c_str(), 1);
    FakeCuda::now().devices = kGpus;
    FakeCuda::now().memory = size_t{64} << 20;
    backend_ = std::make_unique<CudaBackend>(fake_api(), [] { return fake_nccl(); });
    replace_backend(DeviceKind::gpu, backend_.get());
    for (Replaced& r : replaced_) {
      r.before = kernels::find_gpu_kernel(r.name);
      kernels::register_gpu_kernel(r.name, r.later);
    }
  }
  void TearDown() override {
    for (const Replaced& r : replaced_) kernels::register_gpu_kernel(r.name, r.before);
    FakeCuda::now().work.finish_all();
    replace_backend(DeviceKind::gpu, nullptr);
    EXPECT_EQ(fake().created, fake().destroyed + fake().aborted);
    LibraryFixture::TearDown();
    unsetenv("LAMINA_FLIGHT_RECORDS");
  }

  // What a rank's thread works with.
  struct Rank {
    distributed::Communicator& c;
    Stream stream;
    std::unique_ptr<Peers> peers;
    distributed::Place place() { return {c, peers.get(), stream}; }
  };
  void run(int ranks, const std::function<void(Rank&)>& body, Patience patience = kLate) {
    for (int r = 0; r < ranks; ++r) take_error(r);  // of what nobody has waited for
    distributed::run_ranks(
        ranks,
        [&](distributed::Communicator& c) {
          Rank rank{c, backend_->default_stream(gpu(c.rank())), distributed::join_devices(c, gpu(c.rank()))};
          body(rank);
          EXPECT_EQ(FakeNccl::depth, 0) << "a group has not ended";
        },
        patience);
  }
  void take_error(int rank) {
    Stream stream = backend_->default_stream(gpu(rank));
    try {
      backend_->synchronize(stream);
    } catch (const Error&) {
    }
  }
  static Error error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      return e;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::internal, {});
  }

 private:
  // Kernels by the fake GPU.
  static void later(Stream& stream, std::function<void()> work) {
    const auto fake = FakeCuda::lock();
    fake->work.add(stream.native, {.arguments = {}, .other = std::move(work)});
  }
  static void copy_later(Stream& stream, std::span<const Piece> pieces) {
    later(stream, [all = std::vector<Piece>(pieces.begin(), pieces.end())] {
      for (const Piece& p : all) std::memcpy(p.to, p.from, p.bytes);
    });
  }
  static void add_later(Stream& stream, const TreeSum& sum, std::span<const void* const> arrays, void* result) {
    std::vector<uint8_t> joins(sum.joins, sum.joins + arrays.size());
    later(stream, [sum, joins, all = std::vector<const void*>(arrays.begin(), arrays.end()), result] {
      TreeSum own = sum;
      own.joins = joins.data();
      lamina::cpu::tree_sum(own, all, result);
    });
  }
  struct Replaced {
    const char* name;
    kernels::GpuFunction later, before = nullptr;
  };
  template <auto kernel>
  static Replaced replaced(decltype(kernel) by) {
    return {typeid(kernels::GpuKernelName<kernel>).name(), reinterpret_cast<kernels::GpuFunction>(by)};
  }
  std::vector<Replaced> replaced_{replaced<&kernels::cuda::tree_sum>(&add_later), replaced<&kernels::cuda::copy_pieces>(&copy_later)};
};

}  // namespace lamina::cuda
