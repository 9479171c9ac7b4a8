// Max pooling by cuDNN, with a fake library, and the parts of the real one that work without a driver.
#include "runtime/cuda/pooling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernels/max_pool2d.h"
#include "tests/cuda/cudnn_fixture.h"

namespace lamina::cuda {
namespace {

// Equal padding on both sides.
PoolingSizes sizes_of(int64_t images, int64_t height, int64_t width, int64_t channels, int64_t a, int64_t b, int64_t stride_height,
                      int64_t stride_width, int64_t before_height = 0, int64_t before_width = 0) {
  PoolingSizes s{.images = images, .height = height, .width = width, .channels = channels};
  s.window_height = a, s.window_width = b, s.stride_height = stride_height, s.stride_width = stride_width, s.before_height = before_height,
  s.before_width = before_width;
  s.out_height = 1 + (height + 2 * before_height - a) / stride_height;
  s.out_width = 1 + (width + 2 * before_width - b) / stride_width;
  return s;
}
const PoolingSizes kUsual = sizes_of(2, 6, 8, 4, 2, 2, 2, 2);

class CudaPooling : public CudnnFixture<Pooling> {
 protected:
  template <class T>
  struct Operands {
    PoolingSizes s;
    Numbers<T> x, dy, y, dx, own_y, own_dx;
    Numbers<int64_t> places;
    explicit Operands(const PoolingSizes& s, size_t shift = 0)
        : s(s),
          x(images(s), 1, shift),
          dy(result(s), 2),
          y(result(s), 3),
          dx(images(s), 4),
          own_y(result(s), 5),
          own_dx(images(s), 6),
          places(result(s), 7) {}
    static std::vector<int64_t> images(const PoolingSizes& s) { return {s.images, s.height, s.width, s.channels}; }
    static std::vector<int64_t> result(const PoolingSizes& s) { return {s.images, s.out_height, s.out_width, s.channels}; }
    void run_own() const {
      const kernels::cpu::PoolSizes sizes{s.images,        s.height,       s.width,         s.channels,
                                          s.out_height,    s.out_width,    s.window_height, s.window_width,
                                          s.stride_height, s.stride_width, s.before_height, s.before_width};
      Stream cpu;
      kernels::cpu::max_pool2d<T>(cpu, x.view(), own_y.view(), places.view(), sizes);
      kernels::cpu::max_pool2d_grad<T>(cpu, dy.view(), places.view(), own_dx.view(), sizes);
    }
  };
  template <class T>
  bool forward(const Operands<T>& o) {
    return layer_->forward(stream_, o.s, o.x.view(), o.y.view());
  }
  template <class T>
  bool gradient(const Operands<T>& o) {
    return layer_->gradient(stream_, o.s, o.x.view(), o.y.view(), o.dy.view(), o.dx.view());
  }
  template <class T>
  void compare(const PoolingSizes& s, const std::function<void(Numbers<T>&)>& change = {}) {
    SCOPED_TRACE(cat(dtype_of<T>(), " window ", s.window_height, " x ", s.window_width, " stride ", s.stride_height));
    Operands<T> o(s);
    if (change) change(o.x);
    o.run_own();
    ASSERT_TRUE(forward(o));
    ASSERT_TRUE(gradient(o));
    for (int64_t i = 0; i < o.y.size(); ++i) {
      const double got = double(float(o.y.data()[i])), want = double(float(o.own_y.data()[i]));
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << "element " << i << ": " << got << ", not " << want;
    }
    expect_close(o.dx, o.own_dx);
    ASSERT_EQ(fake().complaints, std::vector<std::string>{});
  }
};

TEST_F(CudaPooling, ResultAndGradientMatchTheCpu) {
  for (const PoolingSizes& s : {kUsual, sizes_of(1, 7, 9, 3, 3, 3, 2, 2), sizes_of(3, 7, 5, 2, 3, 3, 2, 2, 1, 1),
                                sizes_of(2, 9, 8, 1, 3, 2, 1, 3, 1, 0), sizes_of(1, 5, 5, 7, 5, 5, 1, 1), sizes_of(2, 5, 6, 3, 1, 1, 2, 1),
                                sizes_of(1, 1, 1, 1, 1, 1, 1, 1), sizes_of(1, 6, 11, 2, 2, 3, 4, 5)}) {
    compare<float>(s);
    compare<double>(s);
    compare<f16>(s);
    compare<bf16>(s);
  }
}

// NVIDIA does not say which of equal elements gets the gradient; the fake takes the same as ours. The test checks that propagation of NaN
// is requested.
TEST_F(CudaPooling, HandlesNaNTiesAndInfinity) {
  const PoolingSizes s = sizes_of(2, 7, 9, 3, 3, 3, 2, 2, 1, 1);
  compare<float>(s, [](Numbers<float>& x) {
    for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = float(i % 3);
    x.data()[4] = x.data()[100] = NAN, x.data()[40] = INFINITY;
  });
  compare<double>(s, [](Numbers<double>& x) { std::fill_n(x.data(), x.size(), -INFINITY); });
}

TEST_F(CudaPooling, SmallOneSidedOrUnalignedUsesOwnKernel) {
  // 2 * 3 * 4 * 4 windows of 4 elements.
  restart(385);
  EXPECT_FALSE(layer_->serves(384));
  EXPECT_FALSE(forward(Operands<float>(kUsual)));
  EXPECT_EQ(loads_, 0);
  restart(384);
  EXPECT_TRUE(layer_->serves(384));
  EXPECT_TRUE(forward(Operands<float>(kUsual)));
  restart();
  fake().calls.clear();
  EXPECT_FALSE(layer_->serves(0));
  PoolingSizes one_sided = sizes_of(1, 6, 6, 2, 3, 3, 2, 2);  // "same": padding after, none before
  one_sided.out_height = one_sided.out_width = 3;
  EXPECT_FALSE(forward(Operands<float>(one_sided)));
  EXPECT_FALSE(gradient(Operands<float>(one_sided)));
  EXPECT_FALSE(forward(Operands<float>(kUsual, 1)));
  EXPECT_FALSE(gradient(Operands<float>(kUsual, 1)));
  EXPECT_FALSE(forward(Operands<float>(sizes_of(0, 6, 8, 4, 2, 2, 2, 2))));
  EXPECT_FALSE(forward(Operands<int64_t>(kUsual)));
  EXPECT_EQ(fake().calls, std::vector<std::string>{});
}

TEST_F(CudaPooling, MissingOrRefusingLibraryUsesOwnKernel) {
  const Operands<float> o(kUsual);
  fake().fail = {{"cudnnPoolingForward", 3000}, {"cudnnPoolingBackward", 3004}};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(forward(o));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gradient(o));
  EXPECT_EQ(fake().count("cudnnPoolingForward"), 1) << "it is asked again for what it cannot do";
  EXPECT_EQ(fake().count("cudnnPoolingBackward"), 1);
  fake().fail.clear();
  EXPECT_TRUE(forward(Operands<float>(sizes_of(2, 6, 8, 4, 3, 3, 1, 1)))) << "it refused other sizes";
  expect_left_without_library([&] { return layer_->serves(1e12) || forward(o) || gradient(o); });
}

TEST_F(CudaPooling, IsPlannedOnceAndRunsOnTheStream) {
  const Operands<float> o(kUsual);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(forward(o) && gradient(o));
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(fake().count("cudnnCreate"), 1);
  EXPECT_EQ(fake().count("cudnnCreatePoolingDescriptor"), 2);
  EXPECT_EQ(layer_->plan_count(), 2u);
  EXPECT_EQ(fake().streams, std::vector<void*>(6, stream_.native));
}

TEST_F(CudaPooling, DropsTheLeastRecentlyUsedPlans) {
  for (int64_t images = 1; images < int64_t(kMostPlans) + 20; ++images)
    ASSERT_TRUE(forward(Operands<float>(sizes_of(images, 1, 1, 1, 1, 1, 1, 1))));
  EXPECT_EQ(layer_->plan_count(), kMostPlans);
  EXPECT_EQ(fake().poolings.size(), kMostPlans);
}

TEST_F(CudaPooling, FailedCallIsNamedAndCanBeRetried) {
  for (const bool backward : {false, true}) {
    const Operands<float> o(kUsual);
    ASSERT_TRUE(forward(o));  // y is the pooled x
    expect_named_failures({"cudnnCreate", "cudnnSetStream", "cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor",
                           "cudnnCreatePoolingDescriptor", "cudnnSetPooling2dDescriptor", "cudnnPoolingForward", "cudnnPoolingBackward"},
                          "f32 images [2, 6, 8, 4], window [2, 2], result [2, 3, 4, 4]", 3,
                          [&] { return backward ? gradient(o) : forward(o); });
  }
}

#if LAMINA_HAS_CUDNN_HEADER
TEST(CudaPoolingNumbers, MatchTheLibrarysHeader) {
  static_assert(cudnn::kMaxDeterministic == CUDNN_POOLING_MAX_DETERMINISTIC && cudnn::kPropagateNan == CUDNN_PROPAGATE_NAN);
  const CudnnApi api{};
  EXPECT_TRUE(alike(cudnnCreatePoolingDescriptor, api.pooling_create));
  EXPECT_TRUE(alike(cudnnDestroyPoolingDescriptor, api.pooling_destroy));
  EXPECT_TRUE(alike(cudnnSetPooling2dDescriptor, api.pooling_set));
  EXPECT_TRUE(alike(cudnnPoolingForward, api.pool));
  EXPECT_TRUE(alike(cudnnPoolingBackward, api.pool_gradient));
}
#endif

// The real library's descriptors need no driver: it accepts ours, and only calls that need a GPU fail.
TEST_F(CudaPooling, RealLibraryAcceptsTheDescriptors) {
  const std::optional<CudnnApi> library = real_library();
  if (!library) GTEST_SKIP() << "cuDNN is missing";
  const CudnnApi& real = *library;
  void* pooling = nullptr;
  ASSERT_EQ(real.pooling_create(&pooling), 0);
  EXPECT_NE(real.pooling_set(pooling, 77, cudnn::kPropagateNan, 2, 2, 0, 0, 2, 2), 0) << "it takes anything";
  EXPECT_NE(real.pooling_set(pooling, cudnn::kMaxDeterministic, cudnn::kPropagateNan, 0, 2, 0, 0, 2, 2), 0) << "it takes anything";
  EXPECT_EQ(real.pooling_destroy(pooling), 0);

  static int made;
  made = 0;
  CudnnApi api = with_fake_handles(real);
  api.pool = [](void*, void*, const void*, void*, const void*, const void*, void*, void*) { return ++made, 0; };
  api.pool_gradient = [](void*, void*, const void*, void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*) {
    return ++made, 0;
  };
  load_by([api] { return api; });
  for (const PoolingSizes& s : {kUsual, sizes_of(3, 7, 5, 2, 3, 3, 2, 2, 1, 1), sizes_of(1, 6, 11, 2, 2, 3, 4, 5)}) {
    EXPECT_TRUE(forward(Operands<float>(s)) && gradient(Operands<float>(s)));
    EXPECT_TRUE(forward(Operands<double>(s)) && gradient(Operands<double>(s)));
    EXPECT_TRUE(forward(Operands<f16>(s)) && gradient(Operands<bf16>(s)));
  }
  EXPECT_EQ(made, 18);
  expect_no_gpu(real, [&] { return forward(Operands<float>(kUsual)); });
}

}  // namespace
}  // namespace lamina::cuda
