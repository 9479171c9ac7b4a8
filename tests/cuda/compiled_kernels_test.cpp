#include "runtime/cuda/compiled_kernels.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {
namespace {

constexpr Device gpu(int index) { return {.kind = DeviceKind::gpu, .model = 0, .index = static_cast<int16_t>(index)}; }

class CompiledKernel : public testing::Test {
 protected:
  CompiledKernel() { FakeCuda::reset(); }
  ~CompiledKernel() override { FakeCuda::reset(); }
  Source source() { return ++sources, Source{"fused_add", "text", {}}; }
  cudaKernel_t ask(CompiledKernels& kernels, int device = 0, const std::string& key = "add") {
    return kernels.find(gpu(device), 90, key, [this] { return source(); });
  }
  int sources = 0;
  std::atomic<int> compiled{0};
};

TEST_F(CompiledKernel, IsMadeBehindTheSecondRequestAndLoadedOncePerDevice) {
  CompiledKernels kernels(fake_api(), [this](const Source& s, int architecture) {
    ++compiled;
    EXPECT_EQ(s.name, "fused_add");
    EXPECT_EQ(architecture, 90);
    return std::string("code");
  });
  EXPECT_EQ(ask(kernels), nullptr);
  kernels.wait();
  EXPECT_EQ(compiled, 0) << "what runs once is not compiled";
  const unsigned before = kernels.version();
  EXPECT_EQ(ask(kernels), nullptr);
  kernels.wait();
  EXPECT_GT(kernels.version(), before) << "recorded launches of the slower kernel are out of date";
  const cudaKernel_t first = ask(kernels);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(ask(kernels), first);
  EXPECT_NE(ask(kernels, 1), first) << "another device has its own";
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(sources, 1);
}

TEST_F(CompiledKernel, ThatDoesNotCompileIsNotTriedAgain) {
  CompiledKernels kernels(fake_api(), [this](const Source&, int) -> std::string {
    ++compiled;
    throw std::runtime_error("it does not compile");
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ask(kernels), nullptr);
    kernels.wait();
  }
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(kernels.why_missing("add"), "it does not compile");
}

TEST_F(CompiledKernel, ThatTheDriverRefusesIsDoneWithoutAndLeaksNothing) {
  for (const std::string call : {"library_load", "library_kernel fused_add"}) {
    FakeCuda::reset();
    CompiledKernels kernels(fake_api(), [](const Source&, int) { return std::string("code"); });
    FakeCuda::now().fail[call] = cudaErrorNoKernelImageForDevice;
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(ask(kernels), nullptr) << call;
      kernels.wait();
    }
    EXPECT_NE(kernels.why_missing("add").find("cudaErrorNoKernelImageForDevice"), std::string::npos);
    const auto& calls = FakeCuda::now().calls;
    const auto count = [&](const char* name) {
      return std::count_if(calls.begin(), calls.end(), [&](const std::string& c) { return c.starts_with(name); });
    };
    EXPECT_EQ(count("library_load"), 1) << "it is not tried again";
    EXPECT_EQ(count("library_unload"), call == "library_load" ? 0 : 1);
    EXPECT_EQ(FakeCuda::now().last, cudaSuccess) << "the next launch would be blamed";
  }
}

}  // namespace
}  // namespace lamina::cuda
