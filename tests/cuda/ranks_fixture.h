// GPUs of a fake backend with a fake NCCL between them, and their ranks' operands.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/collectives.h"
#include "tests/cuda/fake_nccl.h"
#include "tests/cuda/library_fixture.h"
#include "tests/cuda/numbers.h"

namespace lamina::cuda {

constexpr Device gpu(int index) { return {.kind = DeviceKind::gpu, .model = 0, .index = static_cast<int16_t>(index)}; }
inline std::vector<Device> gpus(int count, int first = 0) {
  std::vector<Device> all;
  for (int i = first; i < first + count; ++i) all.push_back(gpu(i));
  return all;
}

// Element i of rank r's operand: 1, 2 or 3, so that small sums and products are exact in each dtype.
inline int brought(int rank, int64_t i) { return 1 + int((i * 5 + rank * 7 + i / 3) % 3); }

// Filled operands of some ranks.
template <class T>
struct Brought {
  std::vector<std::unique_ptr<Numbers<T>>> in, out;
  std::vector<RankOperands> operands;

  Brought(CudaBackend& backend, int first, int count, int64_t in_size, int64_t out_size) {
    for (int rank = first; rank < first + count; ++rank) {
      in.push_back(std::make_unique<Numbers<T>>(std::vector<int64_t>{in_size}, 1));
      out.push_back(std::make_unique<Numbers<T>>(std::vector<int64_t>{out_size}, 2));
      for (int64_t i = 0; i < in_size; ++i) in.back()->data()[i] = T(float(brought(rank, i)));
      operands.push_back({backend.default_stream(gpu(rank)), in.back()->view(), out.back()->view()});
    }
  }
};

class CudaRanks : public LibraryFixture<FakeNccl> {
 protected:
  static constexpr int kGpus = 4;
  static constexpr std::chrono::milliseconds kSoon{30}, kLate{20000};
  void SetUp() override {
    LibraryFixture::SetUp();
    FakeCuda::now().devices = kGpus;
    backend_ = std::make_unique<CudaBackend>(fake_api());
  }
  void TearDown() override {
    EXPECT_EQ(fake().created, fake().destroyed + fake().aborted);
    EXPECT_EQ(FakeNccl::depth, 0) << "a group has not ended";
    LibraryFixture::TearDown();
  }
  std::unique_ptr<Communicator> communicator(int ranks, std::chrono::milliseconds limit = kLate) {
    return std::make_unique<Communicator>(fake_nccl(), fake_api(), gpus(ranks), limit);
  }
  std::vector<Stream> streams(int ranks, int first = 0) {
    std::vector<Stream> all;
    for (int r = first; r < first + ranks; ++r) all.push_back(backend_->default_stream(gpu(r)));
    return all;
  }
};

}  // namespace lamina::cuda
