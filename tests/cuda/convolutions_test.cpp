// Convolutions by cuDNN, with a fake library, and the parts of the real one that work without a driver.
#include "runtime/cuda/convolutions.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "tests/cuda/cudnn_fixture.h"

namespace lamina::cuda {
namespace {

constexpr ConvolutionKind kKinds[] = {ConvolutionKind::forward, ConvolutionKind::grad_input, ConvolutionKind::grad_filter};

// Stride 1 and dilation 1 by default; equal padding on both sides.
ConvolutionSizes sizes_of(int64_t images, int64_t height, int64_t width, int64_t channels, int64_t filters, int64_t a, int64_t b,
                          int64_t before = 0, int64_t stride = 1, int64_t dilation = 1, int64_t groups = 1) {
  ConvolutionSizes s{.images = images, .height = height, .width = width, .channels = channels};
  s.filters = filters, s.window_height = a, s.window_width = b, s.groups = groups;
  s.stride_height = s.stride_width = stride, s.dilation_height = s.dilation_width = dilation, s.before_height = s.before_width = before;
  s.out_height = 1 + (height + 2 * before - ((a - 1) * dilation + 1)) / stride;
  s.out_width = 1 + (width + 2 * before - ((b - 1) * dilation + 1)) / stride;
  return s;
}

class CudaConvolutions : public CudnnFixture {
 protected:
  template <class T>
  struct Operands {
    ConvolutionSizes s;
    Numbers<T> x, w, y, first_result, second_result;
    ConvolutionKind kind;
    Operands(ConvolutionKind kind, const ConvolutionSizes& s, size_t shift = 0)
        : s(s),
          x(images(s), 1, shift),
          w(filters(s), 2),
          y(result(s), 3),
          first_result(shape(kind, s), 4),
          second_result(shape(kind, s), 5),
          kind(kind) {}
    static std::vector<int64_t> images(const ConvolutionSizes& s) { return {s.images, s.height, s.width, s.channels}; }
    static std::vector<int64_t> filters(const ConvolutionSizes& s) {
      return {s.window_height, s.window_width, s.channels / s.groups, s.filters};
    }
    static std::vector<int64_t> result(const ConvolutionSizes& s) { return {s.images, s.out_height, s.out_width, s.filters}; }
    static std::vector<int64_t> shape(ConvolutionKind kind, const ConvolutionSizes& s) {
      return kind == ConvolutionKind::forward ? result(s) : kind == ConvolutionKind::grad_input ? images(s) : filters(s);
    }
    View first() const { return kind == ConvolutionKind::grad_input ? y.view() : x.view(); }
    View second() const { return kind == ConvolutionKind::grad_filter ? y.view() : w.view(); }
  };
  static void copy(Stream&, const View& from, const View& to) { kernels::cpu::copy_elements(from, to); }
  template <class T>
  bool run(const Operands<T>& o) {
    return layer_->run(stream_, o.kind, o.s, o.first(), o.second(), o.first_result.view(), copy);
  }
  template <class T>
  void compare(ConvolutionKind kind, const ConvolutionSizes& s) {
    SCOPED_TRACE(cat(dtype_of<T>(), " kind ", int(kind), " window ", s.window_height, " stride ", s.stride_height, " groups ", s.groups));
    const Operands<T> o(kind, s);
    ASSERT_TRUE(run(o));
    const kernels::cpu::ConvSizes sizes{s.images,         s.height,        s.width,        s.channels,
                                        s.out_height,     s.out_width,     s.filters,      s.window_height,
                                        s.window_width,   s.stride_height, s.stride_width, s.dilation_height,
                                        s.dilation_width, s.before_height, s.before_width, s.groups};
    Stream cpu;
    if (kind == ConvolutionKind::forward) kernels::cpu::conv2d<T>(cpu, o.first(), o.second(), o.second_result.view(), sizes);
    if (kind == ConvolutionKind::grad_input) kernels::cpu::conv2d_grad_input<T>(cpu, o.first(), o.second(), o.second_result.view(), sizes);
    if (kind == ConvolutionKind::grad_filter)
      kernels::cpu::conv2d_grad_filter<T>(cpu, o.first(), o.second(), o.second_result.view(), sizes);
    expect_close(o.first_result, o.second_result);
    ASSERT_EQ(fake().complaints, std::vector<std::string>{});
  }
};

TEST_F(CudaConvolutions, ResultsAndGradientsMatchTheCpu) {
  for (const ConvolutionSizes& s :
       {sizes_of(2, 6, 7, 3, 5, 3, 2), sizes_of(1, 5, 5, 4, 2, 3, 3, 1), sizes_of(2, 9, 8, 2, 3, 3, 4, 2, 2),
        sizes_of(1, 9, 9, 2, 3, 3, 3, 2, 1, 2), sizes_of(2, 5, 4, 6, 9, 2, 3, 1, 1, 1, 3), sizes_of(3, 4, 5, 4, 4, 3, 3, 1, 1, 1, 4),
        sizes_of(1, 1, 1, 1, 1, 1, 1), sizes_of(2, 3, 3, 7, 8, 1, 1)})
    for (ConvolutionKind kind : kKinds) {
      compare<float>(kind, s);
      compare<double>(kind, s);
    }
  ConvolutionSizes uneven{.images = 2,
                          .height = 9,
                          .width = 8,
                          .channels = 2,
                          .out_height = 5,
                          .out_width = 2,
                          .filters = 3,
                          .window_height = 2,
                          .window_width = 3};
  uneven.stride_height = 2, uneven.stride_width = 3, uneven.dilation_height = 3, uneven.dilation_width = 2, uneven.before_height = 2,
  uneven.before_width = 1;
  for (ConvolutionKind kind : kKinds) compare<float>(kind, uneven);
  const ConvolutionSizes s = sizes_of(2, 6, 7, 4, 6, 3, 2, 1, 2, 1, 2);
  for (ConvolutionKind kind : kKinds) {
    compare<f16>(kind, s);
    compare<bf16>(kind, s);
  }
}

TEST_F(CudaConvolutions, SmallOneSidedOrUnalignedUseOwnKernel) {
  restart(1e9);
  EXPECT_FALSE(run(Operands<float>(ConvolutionKind::forward, sizes_of(2, 6, 7, 3, 5, 3, 2))));
  EXPECT_EQ(loads_, 0);
  restart();
  ConvolutionSizes one_sided = sizes_of(1, 6, 6, 2, 3, 3, 3, 0, 2);  // "same" with stride 2: padding after, none before
  one_sided.out_height = one_sided.out_width = 3;
  EXPECT_FALSE(run(Operands<float>(ConvolutionKind::forward, one_sided)));
  EXPECT_FALSE(run(Operands<float>(ConvolutionKind::forward, sizes_of(2, 6, 7, 3, 5, 3, 2), 1)));
  EXPECT_FALSE(run(Operands<float>(ConvolutionKind::forward, sizes_of(0, 6, 7, 3, 5, 3, 2))));
  EXPECT_EQ(fake().calls, std::vector<std::string>{});
}

TEST_F(CudaConvolutions, UseTheFirstDeterministicAlgorithmThatFits) {
  fake().choices = {FakeCudnn::choice(1, 0, 1, 3, 3000),
                    FakeCudnn::choice(2, 0, 0),
                    FakeCudnn::choice(3, size_t{1} << 40),
                    FakeCudnn::choice(4, 0, 1, cudnn::kConvertingMath),
                    FakeCudnn::choice(5, 4096),
                    FakeCudnn::choice(6)};
  const Operands<float> o(ConvolutionKind::forward, sizes_of(2, 6, 7, 3, 5, 3, 2));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(o));
  EXPECT_EQ(fake().algorithms, (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(fake().count("cudnnGetConvolutionForwardAlgorithm_v7"), 1);
  EXPECT_EQ(fake().streams.back(), stream_.native);
  const std::vector<std::string>& calls = FakeCuda::now().calls;
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "allocate_from_pool 4096"), 3);
  fake().choices = {FakeCudnn::choice(2, 0, 0)};
  EXPECT_FALSE(run(Operands<float>(ConvolutionKind::grad_input, sizes_of(2, 6, 7, 3, 5, 3, 2))));
}

TEST_F(CudaConvolutions, MissingOrRefusingLibraryUsesOwnKernel) {
  const Operands<float> o(ConvolutionKind::forward, sizes_of(2, 6, 7, 3, 5, 3, 2)),
      p(ConvolutionKind::grad_filter, sizes_of(2, 6, 7, 3, 5, 3, 2));
  fake().fail["cudnnGetConvolutionForwardAlgorithm_v7"] = 3001;
  fake().fail["cudnnConvolutionBackwardFilter"] = 3004;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(run(o));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(run(p));
  EXPECT_EQ(fake().count("cudnnGetConvolutionForwardAlgorithm_v7"), 1);
  EXPECT_EQ(fake().count("cudnnConvolutionBackwardFilter"), 1) << "it is asked again for what it cannot do";
  expect_left_without_library([&] { return run(o); });
}

TEST_F(CudaConvolutions, DropTheLeastRecentlyUsedPlans) {
  for (int64_t images = 1; images < int64_t(kMostPlans) + 20; ++images)
    ASSERT_TRUE(run(Operands<float>(ConvolutionKind::forward, sizes_of(images, 1, 1, 1, 1, 1, 1))));
  EXPECT_EQ(layer_->plan_count(), kMostPlans);
  EXPECT_EQ(fake().filters.size(), kMostPlans);
}

TEST_F(CudaConvolutions, FailedCallIsNamedAndCanBeRetried) {
  for (ConvolutionKind kind : kKinds) {
    const Operands<float> o(kind, sizes_of(2, 6, 8, 4, 6, 3, 2, 1, 1, 1, 2));
    fake().choices = {FakeCudnn::choice(1, 4096)};
    expect_named_failures(
        {"cudnnCreate", "cudnnSetStream", "cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor", "cudnnCreateFilterDescriptor",
         "cudnnSetFilter4dDescriptor", "cudnnCreateConvolutionDescriptor", "cudnnSetConvolution2dDescriptor", "cudnnSetConvolutionMathType",
         "cudnnSetConvolutionGroupCount", "cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionBackwardDataAlgorithm_v7",
         "cudnnGetConvolutionBackwardFilterAlgorithm_v7", "cudnnConvolutionForward", "cudnnConvolutionBackwardData",
         "cudnnConvolutionBackwardFilter"},
        "f32 images [2, 6, 8, 4], filters [3, 2, 2, 6], result [2, 6, 9, 6]", 4, [&] { return run(o); });
  }
}

#if LAMINA_HAS_CUDNN_HEADER
TEST(CudaConvolutionsNumbers, MatchTheLibrarysHeader) {
  static_assert(cudnn::kFloat == CUDNN_DATA_FLOAT && cudnn::kDouble == CUDNN_DATA_DOUBLE && cudnn::kHalf == CUDNN_DATA_HALF &&
                cudnn::kBfloat16 == CUDNN_DATA_BFLOAT16);
  static_assert(cudnn::kChannelsLast == CUDNN_TENSOR_NHWC && cudnn::kCrossCorrelation == CUDNN_CROSS_CORRELATION &&
                cudnn::kDeterministic == CUDNN_DETERMINISTIC);
  static_assert(cudnn::kDefaultMath == CUDNN_DEFAULT_MATH && cudnn::kTensorMath == CUDNN_TENSOR_OP_MATH &&
                cudnn::kFmaMath == CUDNN_FMA_MATH && cudnn::kConvertingMath == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION &&
                cudnn::not_supported(CUDNN_STATUS_NOT_SUPPORTED));
  static_assert(cudnn::no_memory(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) &&
                cudnn::no_memory(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED));
  const auto same = []<class Theirs>(Theirs) {
    return sizeof(Theirs) == sizeof(cudnn::Choice) && offsetof(Theirs, memory) == offsetof(cudnn::Choice, memory) &&
           offsetof(Theirs, mathType) == offsetof(cudnn::Choice, math) &&
           offsetof(Theirs, determinism) == offsetof(cudnn::Choice, determinism) &&
           offsetof(Theirs, status) == offsetof(cudnn::Choice, status);
  };
  EXPECT_TRUE(same(cudnnConvolutionFwdAlgoPerf_t{}));
  EXPECT_TRUE(same(cudnnConvolutionBwdDataAlgoPerf_t{}));
  EXPECT_TRUE(same(cudnnConvolutionBwdFilterAlgoPerf_t{}));
}
#endif

// The real library's descriptors need no driver: it accepts ours, and only calls that need a GPU fail.
TEST_F(CudaConvolutions, RealLibraryAcceptsTheDescriptors) {
  const std::optional<CudnnApi> library = real_library();
  if (!library) GTEST_SKIP() << "cuDNN is missing";
  const CudnnApi& real = *library;
  void* tensor = nullptr;
  ASSERT_EQ(real.tensor_create(&tensor), 0);
  EXPECT_NE(real.tensor_set(tensor, 77, cudnn::kFloat, 1, 1, 1, 1), 0) << "it takes anything";
  EXPECT_EQ(real.tensor_destroy(tensor), 0);

  static int made;
  made = 0;
  CudnnApi api = with_fake_handles(real);
  for (int kind = 0; kind < 3; ++kind) {
    api.choices[kind] = [](void*, void*, void*, void*, void*, int, int* found, cudnn::Choice* choices) {
      return *choices = FakeCudnn::choice(1), *found = 1, 0;
    };
    api.run[kind] = [](void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*, void*, void*) {
      return ++made, 0;
    };
  }
  load_by([api] { return api; });
  for (ConvolutionKind kind : kKinds) {
    EXPECT_TRUE(run(Operands<float>(kind, sizes_of(2, 6, 8, 4, 6, 3, 2, 1, 2, 1, 2))));
    EXPECT_TRUE(run(Operands<bf16>(kind, sizes_of(2, 6, 8, 4, 6, 3, 2, 1, 1, 2, 1))));
    EXPECT_TRUE(run(Operands<f16>(kind, sizes_of(2, 6, 8, 4, 6, 3, 2))));
    EXPECT_TRUE(run(Operands<double>(kind, sizes_of(2, 6, 8, 4, 6, 3, 2))));
  }
  EXPECT_EQ(made, 12);
  expect_no_gpu(real, [&] { return run(Operands<float>(ConvolutionKind::forward, sizes_of(2, 6, 8, 4, 6, 3, 2))); });
}

}  // namespace
}  // namespace lamina::cuda
