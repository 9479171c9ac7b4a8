// For the tests of convolutions by cuDNN: a fake library, failing calls, a missing library, and the parts of the real library that work
// without a driver.
#pragma once
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/cuda/convolutions.h"
#include "tests/cuda/fake_cudnn.h"
#include "tests/cuda/library_fixture.h"
#include "tests/cuda/numbers.h"

#if __has_include(<cudnn.h>)
#define LAMINA_HAS_CUDNN_HEADER 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn.h>
#pragma GCC diagnostic pop
#endif

namespace lamina::cuda {

class CudnnFixture : public LibraryFixture<FakeCudnn> {
 protected:
  void SetUp() override {
    LibraryFixture::SetUp();
    restart();
  }
  void TearDown() override {
    layer_.reset();
    LibraryFixture::TearDown();
  }
  template <class Load>
  void load_by(Load load, double least = 1) {
    layer_ = std::make_unique<Convolutions>([this, load] { return ++loads_, load(); }, least);
  }
  void restart(double least = 1) { load_by(fake_cudnn, least); }

  // With each of these calls failing, run() throws an error that names it and frees everything; the next run works. Calls that the run does
  // not make are ignored.
  template <class Run>
  void expect_named_failures(const std::vector<const char*>& calls, const char* where, size_t descriptors_of_a_plan, Run run) {
    for (const char* name : calls) {
      SCOPED_TRACE(name);
      restart();
      fake().calls.clear();
      fake().fail[name] = 5000;
      std::string what;
      try {
        EXPECT_TRUE(run());
      } catch (const Error& e) {
        what = e.parts.what;
        EXPECT_EQ(e.kind, ErrorKind::device);
        EXPECT_EQ(e.parts.where, where);
        EXPECT_EQ(e.parts.why, "cuDNN says CUDNN_STATUS_EXECUTION_FAILED (5000)");
        EXPECT_NE(e.parts.fix.find("LAMINA_CUDNN=never"), std::string::npos);
      }
      EXPECT_EQ(what.substr(0, what.find(" failed")), fake().count(name) ? cat("cuda: ", name) : "");
      EXPECT_EQ(fake().alive(), (name == std::string("cudnnCreate") ? 0 : 1) + descriptors_of_a_plan * layer_->plan_count())
          << "what a failed plan had made is still there";
      EXPECT_EQ(FakeCuda::now().used, 0u);
      fake().fail.clear();
      EXPECT_TRUE(run());
    }
  }
  // A missing library is searched once, and run() leaves the work to our own kernels.
  template <class Run>
  void expect_left_without_library(Run run) {
    loads_ = 0;
    load_by([]() -> CudnnApi {
      throw Error(ErrorKind::device, {.what = "cuda: cuDNN is missing", .where = "", .why = "tried a, b", .fix = "pip install it"});
    });
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(run());
    EXPECT_EQ(loads_, 1);
    EXPECT_EQ(layer_->why_missing(), "cuda: cuDNN is missing: tried a, b. pip install it");
  }
  static std::optional<CudnnApi> real_library() {
    try {
      return load_cudnn(system_loader());
    } catch (const Error& e) {
      std::cout << e.what() << "\n";
      return {};
    }
  }
  // Real descriptors need no driver; handles do.
  static CudnnApi with_fake_handles(CudnnApi api) {
    static int handle;
    api.create = [](void** made) { return *made = &handle, 0; };
    api.destroy = [](void*) { return 0; };
    api.set_stream = [](void*, void*) { return 0; };
    return api;
  }
  // Without a GPU the real library's first call fails with its own message.
  template <class Run>
  void expect_no_gpu(const CudnnApi& real, Run run) {
    void* handle = nullptr;
    if (real.create(&handle) == 0) return void(real.destroy(handle));
    load_by([real] { return real; });
    try {
      run();
      FAIL() << "there is no GPU";
    } catch (const Error& e) {
      EXPECT_NE(e.parts.what.find("cuda: cudnnCreate failed"), std::string::npos) << e.what();
      EXPECT_NE(e.parts.why.find("CUDNN_STATUS_"), std::string::npos) << e.what();
    }
  }

  std::unique_ptr<Convolutions> layer_;
  int loads_ = 0;
};

#if LAMINA_HAS_CUDNN_HEADER
// Whether both have as many arguments of the same sizes and kinds: enums are ints here, descriptors pointers.
template <class... A, class... B>
constexpr bool alike(cudnnStatus_t (*)(A...), int (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
             std::is_floating_point_v<A> == std::is_floating_point_v<B>) &&
            ...);
}
#endif

}  // namespace lamina::cuda
