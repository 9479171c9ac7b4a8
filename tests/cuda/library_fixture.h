// A CUDA backend on fakes, with one fake NVIDIA library. Everything must be freed in the end.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_backend.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {

template <class Fake>
class LibraryFixture : public testing::Test {
 protected:
  void SetUp() override {
    FakeCuda::reset();
    fake().reset();
    backend_ = std::make_unique<CudaBackend>(fake_api());
    stream_ = backend_->default_stream({DeviceKind::gpu, 0, 0});
  }
  void TearDown() override {
    EXPECT_EQ(fake().complaints, std::vector<std::string>{});
    EXPECT_EQ(fake().alive(), 0u) << "something that was created is not destroyed";
    EXPECT_EQ(FakeCuda::now().used, 0u) << "workspace is not given back";
  }
  static Fake& fake() { return Fake::now(); }

  std::unique_ptr<CudaBackend> backend_;
  Stream stream_;
};

}  // namespace lamina::cuda
