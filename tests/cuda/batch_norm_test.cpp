// Batch normalisation by cuDNN, with a fake library, and the parts of the real one that work without a driver.
#include "runtime/cuda/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "tests/cuda/cudnn_fixture.h"

namespace lamina::cuda {
namespace {

constexpr double kEpsilon = 0.05;

class CudaBatchNorm : public CudnnFixture<BatchNorm> {
 protected:
  // P: the type of per-channel values.
  template <class T, class P = std::conditional_t<sizeof(T) == 8, double, float>>
  struct Operands {
    Numbers<T> x, y, dy, dx;
    Numbers<P> scale, bias, running_mean, running_variance, mean, inverse, dscale, dbias;
    int64_t channels, rows;
    explicit Operands(std::vector<int64_t> shape, size_t shift = 0)
        : x(shape, 1, shift),
          y(shape, 2),
          dy(shape, 3),
          dx(shape, 4),
          scale({shape.back()}, 5),
          bias({shape.back()}, 6),
          running_mean({shape.back()}, 7),
          running_variance({shape.back()}, 8),
          mean({shape.back()}, 9),
          inverse({shape.back()}, 10),
          dscale({shape.back()}, 11),
          dbias({shape.back()}, 12),
          channels(shape.back()),
          rows(x.size() / std::max<int64_t>(1, channels)) {}
  };
  template <class T>
  bool forward(const Operands<T>& o) {
    return layer_->forward(stream_, o.x.view(), o.y.view(), kEpsilon, [&] {
      ++asked_;
      return BatchNorm::Forward{o.scale.data(), o.bias.data(),   o.running_mean.data(), o.running_variance.data(),
                                o.mean.data(),  o.inverse.data()};
    });
  }
  template <class T>
  bool gradient(const Operands<T>& o) {
    return layer_->gradient(stream_, o.x.view(), o.dy.view(), o.dx.view(), kEpsilon, [&] {
      ++asked_;
      return BatchNorm::Gradient{o.scale.data(), o.mean.data(), o.inverse.data(), o.dscale.data(), o.dbias.data()};
    });
  }
  // y, moments and gradients by the formulas; the gradient of x by differences of the loss sum(y dy).
  template <class T>
  void compare(const std::vector<int64_t>& shape) {
    SCOPED_TRACE(cat(dtype_of<T>(), " ", shape.size(), " dimensions, ", shape.back(), " channels"));
    const Operands<T> o(shape);
    ASSERT_TRUE(forward(o));
    ASSERT_TRUE(gradient(o));
    ASSERT_EQ(fake().complaints, std::vector<std::string>{});
    const double near = sizeof(T) == 2 ? 0.05 : 1e-4;
    for (int64_t c = 0; c < o.channels; ++c) {
      const auto at = [&](const Numbers<T>& v, int64_t r) { return double(float(v.data()[r * o.channels + c])); };
      const auto normalized = [&](int64_t row, double step, double* variance) {
        double mean = 0, squares = 0;
        for (int64_t r = 0; r < o.rows; ++r) mean += (at(o.x, r) + (r == row ? step : 0)) / double(o.rows);
        for (int64_t r = 0; r < o.rows; ++r) squares += std::pow(at(o.x, r) + (r == row ? step : 0) - mean, 2);
        if (variance) *variance = squares / double(o.rows - 1);
        std::vector<double> y;
        for (int64_t r = 0; r < o.rows; ++r)
          y.push_back((at(o.x, r) + (r == row ? step : 0) - mean) / std::sqrt(squares / double(o.rows) + kEpsilon) *
                          double(o.scale.data()[c]) +
                      double(o.bias.data()[c]));
        return y;
      };
      double unbiased = 0, dbias = 0;
      const std::vector<double> y = normalized(-1, 0, &unbiased);
      EXPECT_NEAR(double(o.running_variance.data()[c]), unbiased, 1e-5);
      double mean = 0, dscale = 0;
      for (int64_t r = 0; r < o.rows; ++r) mean += at(o.x, r) / double(o.rows);
      const double inverse = 1 / std::sqrt(unbiased * double(o.rows - 1) / double(o.rows) + kEpsilon);
      for (int64_t r = 0; r < o.rows; ++r) dscale += at(o.dy, r) * (at(o.x, r) - mean) * inverse;
      EXPECT_NEAR(double(o.mean.data()[c]), mean, 1e-5);
      EXPECT_NEAR(double(o.running_mean.data()[c]), mean, 1e-5);
      EXPECT_NEAR(double(o.inverse.data()[c]), inverse, 1e-3 * inverse);
      EXPECT_NEAR(double(o.dscale.data()[c]), dscale, 1e-3);
      for (int64_t r = 0; r < o.rows; ++r) {
        EXPECT_NEAR(at(o.y, r), y[size_t(r)], near);
        dbias += at(o.dy, r);
        const double step = 1e-4;
        const std::vector<double> up = normalized(r, step, nullptr), down = normalized(r, -step, nullptr);
        double slope = 0;
        for (int64_t i = 0; i < o.rows; ++i) slope += (up[size_t(i)] - down[size_t(i)]) / (2 * step) * at(o.dy, i);
        EXPECT_NEAR(at(o.dx, r), slope, near);
      }
      EXPECT_NEAR(double(o.dbias.data()[c]), dbias, 1e-4);
    }
  }

  int asked_ = 0;
};

TEST_F(CudaBatchNorm, NormalisesEachChannelAndHasItsGradient) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3, 4, 5}, {6, 3}, {7, 1}, {2, 5, 3}, {2, 2, 2, 2, 3}}) {
    compare<float>(shape);
    compare<double>(shape);
    compare<f16>(shape);
    compare<bf16>(shape);
  }
}

TEST_F(CudaBatchNorm, SpreadsNaNWithinItsChannel) {
  const Operands<float> o({4, 3, 2});
  o.x.data()[2] = NAN;  // of channel 0
  std::fill_n(o.running_variance.data(), 2, 0.0f);
  ASSERT_TRUE(forward(o));
  EXPECT_TRUE(std::isnan(o.y.data()[0]) && std::isnan(o.mean.data()[0]) && std::isnan(o.running_variance.data()[0]));
  EXPECT_TRUE(std::isfinite(o.y.data()[1]) && std::isfinite(o.mean.data()[1]) && std::isfinite(o.running_variance.data()[1]));
}

TEST_F(CudaBatchNorm, SmallOneRowOrUnalignedUsesOwnKernels) {
  restart(481);  // four operations per element
  EXPECT_FALSE(forward(Operands<float>({2, 3, 4, 5})));
  EXPECT_EQ(loads_, 0);
  restart(480);
  EXPECT_TRUE(forward(Operands<float>({2, 3, 4, 5})));
  restart();
  fake().calls.clear(), asked_ = 0;
  EXPECT_FALSE(forward(Operands<float>({1, 5})));
  EXPECT_FALSE(forward(Operands<float>({5})));
  EXPECT_FALSE(forward(Operands<float>({0, 5})));
  EXPECT_FALSE(forward(Operands<float>({4, 0})));
  EXPECT_FALSE(forward(Operands<float>({2, 3, 4, 5}, 1)));
  EXPECT_FALSE(gradient(Operands<float>({2, 3, 4, 5}, 1)));
  EXPECT_FALSE(gradient(Operands<float>({1, 5})));
  EXPECT_EQ(fake().calls, std::vector<std::string>{});
  EXPECT_EQ(asked_, 0) << "vectors are made that nobody needs";
}

TEST_F(CudaBatchNorm, MissingOrRefusingLibraryUsesOwnKernels) {
  const Operands<float> o({2, 3, 4, 5});
  fake().fail = {{"cudnnBatchNormalizationForwardTraining", 3000}, {"cudnnBatchNormalizationBackward", 3007}};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(forward(o) || gradient(o));
  EXPECT_EQ(fake().count("cudnnBatchNormalizationForwardTraining"), 1) << "it is asked again for what it cannot do";
  EXPECT_EQ(fake().count("cudnnBatchNormalizationBackward"), 1);
  EXPECT_EQ(asked_, 2);
  fake().fail.clear();
  expect_left_without_library([&] { return forward(o) || gradient(o); });
}

TEST_F(CudaBatchNorm, IsPlannedOnceAndRunsOnTheStream) {
  const Operands<float> o({2, 3, 4, 5});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(forward(o) && gradient(o));
  EXPECT_EQ(fake().count("cudnnCreate"), 1);
  EXPECT_EQ(fake().count("cudnnDeriveBNTensorDescriptor"), 2);
  EXPECT_EQ(layer_->plan_count(), 2u);
  EXPECT_EQ(fake().streams, std::vector<void*>(6, stream_.native));
  for (int64_t rows = 2; rows < int64_t(kMostPlans) + 20; ++rows) ASSERT_TRUE(forward(Operands<float>({rows, 1})));
  EXPECT_EQ(layer_->plan_count(), kMostPlans);
  EXPECT_EQ(fake().tensors.size(), 2 * kMostPlans);
}

TEST_F(CudaBatchNorm, FailedCallIsNamedAndCanBeRetried) {
  const Operands<float> o({2, 3, 4, 5});
  for (const bool backward : {false, true})
    expect_named_failures({"cudnnCreate", "cudnnSetStream", "cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor",
                           "cudnnDeriveBNTensorDescriptor", "cudnnBatchNormalizationForwardTraining", "cudnnBatchNormalizationBackward"},
                          "f32 batch normalisation of [2, 3, 4, 5]", 2, [&] { return backward ? gradient(o) : forward(o); });
}

#if LAMINA_HAS_CUDNN_HEADER
TEST(CudaBatchNormNumbers, MatchTheLibrarysHeader) {
  static_assert(cudnn::kSpatial == CUDNN_BATCHNORM_SPATIAL && CUDNN_BN_MIN_EPSILON == 0.0);
  const CudnnApi api{};
  EXPECT_TRUE(alike(cudnnDeriveBNTensorDescriptor, api.norm_derive));
  EXPECT_TRUE(alike(cudnnBatchNormalizationForwardTraining, api.normalize));
  EXPECT_TRUE(alike(cudnnBatchNormalizationBackward, api.normalize_gradient));
}
#endif

// The real library's descriptors need no driver: checks that it accepts ours.
TEST_F(CudaBatchNorm, RealLibraryAcceptsTheDescriptors) {
  const std::optional<CudnnApi> library = real_library();
  if (!library) GTEST_SKIP() << "cuDNN is missing";
  const CudnnApi& real = *library;
  static int made;
  made = 0;
  CudnnApi api = with_fake_handles(real);
  api.normalize = [](void*, int, const void*, const void*, void*, const void*, void*, void*, void*, const void*, const void*, double, void*,
                     void*, double, void*, void*) { return ++made, 0; };
  api.normalize_gradient = [](void*, int, const void*, const void*, const void*, const void*, void*, const void*, void*, const void*, void*,
                              void*, void*, const void*, void*, void*, double, const void*, const void*) { return ++made, 0; };
  load_by([api] { return api; });
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3, 4, 5}, {6, 3}, {2, 2, 2, 2, 3}}) {
    EXPECT_TRUE(forward(Operands<float>(shape)) && gradient(Operands<float>(shape)));
    EXPECT_TRUE(forward(Operands<double>(shape)) && gradient(Operands<double>(shape)));
    EXPECT_TRUE(forward(Operands<f16>(shape)) && gradient(Operands<bf16>(shape)));
  }
  EXPECT_EQ(made, 18);

  void *x = nullptr, *channels = nullptr;
  ASSERT_EQ(real.tensor_create(&x), 0);
  ASSERT_EQ(real.tensor_create(&channels), 0);
  ASSERT_EQ(real.tensor_set(x, cudnn::kChannelsLast, cudnn::kHalf, 2, 5, 3, 4), 0);
  EXPECT_NE(real.norm_derive(channels, x, 77), 0) << "it takes anything";
  EXPECT_EQ(real.norm_derive(channels, x, cudnn::kSpatial), 0);
#if LAMINA_HAS_CUDNN_HEADER
  cudnnDataType_t type;
  int n, c, h, w, steps[4];
  const auto get = reinterpret_cast<decltype(&cudnnGetTensor4dDescriptor)>(
      system_loader().symbol(open_library(cudnn_name(), system_loader()).handle, "cudnnGetTensor4dDescriptor"));
  ASSERT_NE(get, nullptr);
  ASSERT_EQ(get(static_cast<cudnnTensorDescriptor_t>(channels), &type, &n, &c, &h, &w, &steps[0], &steps[1], &steps[2], &steps[3]),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(type, CUDNN_DATA_FLOAT) << "half types have floats for their channels";
  EXPECT_EQ((std::vector<int>{n, c, h, w, steps[1]}), (std::vector<int>{1, 5, 1, 1, 1}));
#endif
  real.tensor_destroy(x), real.tensor_destroy(channels);
}

}  // namespace
}  // namespace lamina::cuda
