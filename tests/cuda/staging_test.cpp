#include "runtime/cuda/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/cuda/cuda_backend.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {
namespace {

class CudaStaging : public testing::Test {
 protected:
  CudaStaging() {
    FakeCuda::reset();
    fake.memory = size_t{64} << 20;
  }
  ~CudaStaging() override { fake.work.finish_all(); }
  static std::vector<int> numbers(size_t count, int first) {
    std::vector<int> v(count);
    std::iota(v.begin(), v.end(), first);
    return v;
  }
  int times(const std::string& call) {
    return static_cast<int>(
        std::count_if(fake.calls.begin(), fake.calls.end(), [&](const std::string& c) { return c.starts_with(call + " "); }));
  }
  // Round trips with sizes that do and do not divide into blocks.
  void round_trips() {
    Stream stream = backend.default_stream(device), other = backend.create_stream(device);
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{262'144}, size_t{262'145}, size_t{1'500'000}}) {
      SCOPED_TRACE(count);
      const size_t bytes = count * sizeof(int);
      void* data = backend.allocate(stream, bytes);
      std::vector<int> from = numbers(count, 7);
      backend.copy(stream, data, from.data(), bytes, CopyKind::to_device);
      std::fill(from.begin(), from.end(), -1);  // it may be changed now
      void* second = backend.allocate(stream, 16);
      int four[4] = {1, 2, 3, 4};
      backend.synchronize(stream);
      backend.copy(other, second, four, 16, CopyKind::to_device);  // another stream's bytes use a block of their own
      std::vector<int> back(count);
      backend.copy(stream, back.data(), data, bytes, CopyKind::to_host);
      EXPECT_TRUE(back == numbers(count, 7));
      int four_back[4] = {};
      backend.copy(other, four_back, second, 16, CopyKind::to_host);
      EXPECT_TRUE(std::equal(four, four + 4, four_back));
      backend.free(stream, data, bytes);
      backend.free(stream, second, 16);
    }
    backend.destroy_stream(other);
  }

  const Device device{.kind = DeviceKind::gpu, .model = 0, .index = 0};
  FakeCuda& fake = FakeCuda::now();
  CudaBackend backend{fake_api()};
};

TEST_F(CudaStaging, KeepsTheStreamsOrderAndTheHostsBytes) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    fake.work.random.seed(seed);
    round_trips();
  }
  EXPECT_EQ(times("host_allocate"), 1 + int(Staging::kBlocks)) << "the device's record of faults, and the ring";
}

TEST_F(CudaStaging, KeepsAStreamsBytesWhileAnotherUsesAllBlocks) {
  Stream stream = backend.default_stream(device), other = backend.create_stream(device);
  const std::vector<int> many = numbers(1'500'000, 1000);
  int four[4] = {1, 2, 3, 4}, back[4] = {};
  void* small = backend.allocate(stream, 16);
  void* large = backend.allocate(stream, many.size() * sizeof(int));
  backend.synchronize(stream);
  for (unsigned seed = 0; seed < 10; ++seed) {
    fake.work.random.seed(seed);
    backend.copy(stream, small, four, 16, CopyKind::to_device);
    backend.copy(other, large, many.data(), 64, CopyKind::to_device);
    backend.copy(other, large, many.data(), many.size() * sizeof(int), CopyKind::to_device);
    backend.copy(stream, back, small, 16, CopyKind::to_host);
    EXPECT_TRUE(std::equal(four, four + 4, back));
  }
  backend.synchronize(other);
  backend.free(stream, small, 16);
  backend.free(stream, large, many.size() * sizeof(int));
  backend.destroy_stream(other);
}

TEST_F(CudaStaging, TakesPinnedMemoryWhenItIsNeededFirst) {
  Stream stream = backend.default_stream(device);
  const int before = times("host_allocate");
  void* data = backend.allocate(stream, 64);
  EXPECT_EQ(times("host_allocate"), before);
  char host[64] = {};
  backend.copy(stream, data, host, 64, CopyKind::to_device);
  backend.copy(stream, host, data, 64, CopyKind::to_host);
  EXPECT_EQ(times("host_allocate"), before + 1) << "small copies share a block";
  backend.free(stream, data, 64);
}

TEST_F(CudaStaging, WorksWithoutPinnedMemory) {
  backend.default_stream(device);
  fake.fail["host_allocate"] = cudaErrorMemoryAllocation;
  round_trips();
}

TEST_F(CudaStaging, FreesItsMemory) {
  {
    CudaBackend other(fake_api());
    Stream stream = other.default_stream(device);
    void* data = other.allocate(stream, 64);
    char host[64] = {};
    other.copy(stream, data, host, 64, CopyKind::to_device);
    other.free(stream, data, 64);
  }
  EXPECT_EQ(fake.pinned.size(), 1u) << "the record of faults, which kernels may still write";
}

// A copy that fails half-way leaves no state that disturbs a later one.
TEST_F(CudaStaging, WorksAfterEachCallFailed) {
  Stream stream = backend.default_stream(device);
  const size_t bytes = size_t{6} << 20;
  const std::vector<int> from = numbers(bytes / sizeof(int), 3);
  void* data = backend.allocate(stream, bytes);
  const auto both = [&] {
    std::vector<int> back(from.size());
    backend.copy(stream, data, from.data(), bytes, CopyKind::to_device);
    backend.copy(stream, back.data(), data, bytes, CopyKind::to_host);
    EXPECT_TRUE(back == from);
  };
  both();  // allocates the blocks
  fake.calls.clear();
  both();
  const int calls = int(fake.calls.size());
  ASSERT_GT(calls, 20);
  for (int failing = 0; failing < calls; ++failing) {
    SCOPED_TRACE(failing);
    fake.countdown = failing;
    EXPECT_THROW(both(), Error);
    fake.countdown = -1;
    both();
  }
  backend.free(stream, data, bytes);
}

}  // namespace
}  // namespace lamina::cuda
