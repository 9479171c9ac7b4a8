// Kernels around the library's batch normalisation, with a host implementation of the library. tests/ops compares our own kernels.
#include "kernels/cuda/batch_norm.cu"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"

namespace lamina::kernels::cuda {
namespace {

constexpr double kEpsilon = 0.1;

template <class T>
double value(const void* data, int64_t i) {
  return double(static_cast<const T*>(data)[i]);
}
template <class T>
View seen(Buffer<T>& b, const std::vector<int64_t>& lengths) {
  return contiguous_view(b.data(), TensorType{dtype_of<T>(), Shape(lengths.begin(), lengths.end())});
}
template <class T>
Buffer<T> numbers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(T(std::uniform_real_distribution<double>(-1, 1)(random)));
  return Buffer<T>(values);
}

class EmulatedBatchNormTest : public testing::Test {
 protected:
  void TearDown() override { emulated_batch_norm = {}; }
};

// cuDNN's computation as our kernels see it: vectors of floats, or doubles for double.
template <class T>
void bring_library(const int64_t& channels) {
  using P = compute_t<T>;
  emulated_batch_norm.forward = [&](const View& x, const View& y, double epsilon, const lamina::cuda::BatchNorm::Forward& v) {
    EXPECT_EQ(epsilon, kEpsilon);
    const int64_t rows = x.size() / channels;
    for (int64_t c = 0; c < channels; ++c) {
      double mean = 0, squares = 0;
      for (int64_t r = 0; r < rows; ++r) mean += value<T>(x.data, r * channels + c) / double(rows);
      for (int64_t r = 0; r < rows; ++r) squares += std::pow(value<T>(x.data, r * channels + c) - mean, 2);
      const double inverse = 1 / std::sqrt(squares / double(rows) + epsilon);
      for (int64_t r = 0; r < rows; ++r)
        y.as<T>()[r * channels + c] =
            narrow<T>(P((value<T>(x.data, r * channels + c) - mean) * inverse * value<P>(v.scale, c) + value<P>(v.bias, c)));
      EXPECT_EQ(value<P>(v.running_mean, c), 0) << "0 times NaN is NaN";
      EXPECT_EQ(value<P>(v.running_variance, c), 0);
      static_cast<P*>(v.running_mean)[c] = P(mean), static_cast<P*>(v.running_variance)[c] = P(squares / double(rows - 1));
      static_cast<P*>(v.mean)[c] = P(mean), static_cast<P*>(v.inverse_deviation)[c] = P(inverse);
    }
  };
  emulated_batch_norm.gradient = [&](const View& x, const View& dy, const View& dx, const lamina::cuda::BatchNorm::Gradient& v) {
    const int64_t rows = x.size() / channels;
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, along = 0;
      const double mean = value<P>(v.mean, c), inverse = value<P>(v.inverse_deviation, c);
      const auto hat = [&](int64_t r) { return (value<T>(x.data, r * channels + c) - mean) * inverse; };
      for (int64_t r = 0; r < rows; ++r) sum += value<T>(dy.data, r * channels + c), along += value<T>(dy.data, r * channels + c) * hat(r);
      for (int64_t r = 0; r < rows; ++r)
        dx.as<T>()[r * channels + c] = narrow<T>(
            P(value<P>(v.scale, c) * inverse * (value<T>(dy.data, r * channels + c) - sum / double(rows) - hat(r) * along / double(rows))));
      static_cast<P*>(v.dscale)[c] = P(along), static_cast<P*>(v.dbias)[c] = P(sum);
    }
  };
}

// With and without the library: the same numbers up to rounding.
template <class T>
void compare(std::vector<int64_t> shape, bool scale, bool center) {
  SCOPED_TRACE(cat(dtype_of<T>(), ", ", shape.back(), " channels, gamma ", scale, ", beta ", center));
  const int64_t channels = shape.back();
  int64_t size = 1;
  for (int64_t n : shape) size *= n;
  Buffer<T> x = numbers<T>(size, 1), gamma = numbers<T>(channels, 2), beta = numbers<T>(channels, 3), dy = numbers<T>(size, 4);
  std::vector<std::vector<double>> results[2];
  Stream stream = tests::EmulatedBackend::one().default_stream({DeviceKind::gpu, 0, 0});
  for (const bool library : {true, false}) {
    if (library)
      bring_library<T>(channels);
    else
      emulated_batch_norm = {};
    Buffer<T> y(static_cast<size_t>(size)), mean(static_cast<size_t>(channels)), variance(static_cast<size_t>(channels)),
        dx(static_cast<size_t>(size)), dgamma(static_cast<size_t>(channels)), dbeta(static_cast<size_t>(channels));
    const View xv = seen(x, shape), gv = seen(gamma, {channels}), bv = seen(beta, {channels}), yv = seen(y, shape),
               mv = seen(mean, {channels}), vv = seen(variance, {channels}), dyv = seen(dy, shape), dxv = seen(dx, shape),
               dgv = seen(dgamma, {channels}), dbv = seen(dbeta, {channels});
    std::vector<const View*> in{&xv}, gradient_in{&xv}, gradient_out{&dxv};
    if (scale) in.push_back(&gv), gradient_in.push_back(&gv), gradient_out.push_back(&dgv);
    if (center) in.push_back(&bv), gradient_out.push_back(&dbv);
    gradient_in.insert(gradient_in.end(), {&mv, &vv, &dyv});
    const std::vector<const View*> out{&yv, &mv, &vv};
    batch_norm_train<T>(stream, in, out, {kEpsilon, scale, center});
    batch_norm_train_grad<T>(stream, gradient_in, gradient_out, {kEpsilon, scale, center});
    for (const View* v : {&yv, &mv, &vv, &dxv, &dgv, &dbv}) {
      const bool made = (v != &dgv || scale) && (v != &dbv || center);
      std::vector<double> values;
      for (int64_t i = 0; made && i < v->size(); ++i) values.push_back(value<T>(v->data, i));
      results[library].push_back(values);
    }
  }
  const double near = sizeof(T) == 8 ? 1e-12 : 1e-5;
  for (size_t i = 0; i < results[0].size(); ++i)
    for (size_t e = 0; e < results[0][i].size(); ++e)
      ASSERT_NEAR(results[1][i][e], results[0][i][e], near * std::max(1.0, std::abs(results[0][i][e])))
          << "result " << i << ", element " << e;
}

TEST_F(EmulatedBatchNormTest, LibraryAndOwnKernelsAgree) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3, 4, 5}, {6, 3}, {40, 65}, {3, 7, 1}})
    for (const bool scale : {true, false})
      for (const bool center : {true, false}) {
        compare<float>(shape, scale, center);
        compare<double>(shape, scale, center);
      }
}

}  // namespace
}  // namespace lamina::kernels::cuda
