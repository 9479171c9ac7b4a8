// The launches of large work: a launch that leaves multiprocessors of a card without a block must leave little to each of its threads.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/argmax.h"
#include "kernels/batched_matmul.h"
#include "kernels/conv2d.h"
#include "kernels/cuda/element.h"
#include "kernels/cumsum.h"
#include "kernels/dense.h"
#include "kernels/max_pool2d.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"
#include "kernels/sparse_cross_entropy.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"

namespace lamina::tests {
namespace {

using namespace kernels;

constexpr double kMostTerms = 8192;              // of a thread
constexpr unsigned kThreadsOfACard = 128 * 256;  // a block of 256 threads on nearly each multiprocessor of an H100

// Memory that no launch touches.
View nowhere(std::vector<int64_t> shape, DType dtype = DType::f32) {
  View v;
  v.dtype = dtype, v.rank = int32_t(shape.size());
  int64_t stride = 1;
  for (int a = v.rank - 1; a >= 0; --a) v.shape[a] = shape[size_t(a)], v.strides[a] = stride, stride *= shape[size_t(a)];
  return v;
}

// terms: additions, or elements that are read, of the launch that has most of them.
void expect_busy(const char* what, double terms, const std::function<void(Stream&)>& start) {
  SCOPED_TRACE(what);
  Stream stream = EmulatedBackend::one().default_stream({DeviceKind::gpu, 0, 0});
  unsigned most = 0;
  const auto launches = cuda::emulation::launches_of([&] { start(stream); });
  ASSERT_FALSE(launches.empty());
  for (const auto& launch : launches) most = std::max(most, launch.shape.grid.x * launch.shape.threads);
  if (most < kThreadsOfACard) {
    EXPECT_LE(terms / most, kMostTerms) << most << " threads";
  }
}

TEST(LaunchShapes, LongSumsOfSmallProductsFillTheCard) {
  for (const int64_t rows : {64, 256, 1024, 8192, 262144}) {
    SCOPED_TRACE(rows);
    expect_busy("dense_grad_weights", double(rows) * 64 * 64, [&](Stream& stream) {
      const View x = nowhere({rows, 64}), dw = nowhere({64, 64}), db = nowhere({64});
      const View *const in[] = {&x, &x}, *const out[] = {&dw, &db};
      cuda::dense_grad_weights<float>(stream, in, out, Precision::float32);
    });
    expect_busy("dense", double(rows) * 16, [&](Stream& stream) {
      const View x = nowhere({1, rows}), w = nowhere({rows, 16}), y = nowhere({1, 16});
      const View *const in[] = {&x, &w}, *const out[] = {&y};
      cuda::dense<float>(stream, in, out, section::Activation::none, 0, Precision::float32);
    });
    expect_busy("batched_matmul", double(rows) * 64 * 64, [&](Stream& stream) {
      cuda::batched_matmul<float>(stream, nowhere({64, rows}), nowhere({rows, 64}), nowhere({64, 64}), false, false);
    });
  }
}

TEST(LaunchShapes, ConvolutionsAndPoolingFillTheCard) {
  for (const int64_t images : {20, 128, 1024})
    for (const int64_t channels : {3, 16, 32}) {
      SCOPED_TRACE(cat(images, " images of ", channels, " channels"));
      const cuda::ConvSizes s{images, 16, 16, channels, 16, 16, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1};
      const View x = nowhere({images, 16, 16, channels}), w = nowhere({3, 3, channels, 16}), y = nowhere({images, 16, 16, 16});
      const double terms = double(images) * 256 * 16 * 9 * double(channels);
      expect_busy("conv2d", terms, [&](Stream& stream) { cuda::conv2d<float>(stream, x, w, y, s); });
      expect_busy("conv2d_grad_input", terms, [&](Stream& stream) { cuda::conv2d_grad_input<float>(stream, y, w, x, s); });
      expect_busy("conv2d_grad_filter", terms, [&](Stream& stream) { cuda::conv2d_grad_filter<float>(stream, x, y, w, s); });
      const cuda::PoolSizes pool{images, 16, 16, channels, 8, 8, 2, 2, 2, 2};
      const View half = nowhere({images, 8, 8, channels}), places = nowhere({images, 8, 8, channels}, DType::i64);
      expect_busy("max_pool2d", double(x.size()), [&](Stream& stream) { cuda::max_pool2d<float>(stream, x, half, places, pool); });
      expect_busy("max_pool2d_grad", double(x.size()),
                  [&](Stream& stream) { cuda::max_pool2d_grad<float>(stream, half, places, x, pool); });
    }
}

// Each launch reads at most the whole operand.
TEST(LaunchShapes, SumsAndScansOfFewLongLinesFillTheCard) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1 << 20}, {1 << 20, 1}, {3, 300'000}, {300'000, 3}, {16, 65536}, {65536, 16}, {1 << 19, 32}, {1, 1 << 26}}) {
    SCOPED_TRACE(cat(rows, " x ", columns));
    const View x = nowhere({rows, columns}), of_rows = nowhere({rows}), of_columns = nowhere({columns});
    const double terms = double(rows * columns);
    expect_busy("sum of rows", terms, [&](Stream& stream) { cuda::reduce(stream, x, of_rows, section::Reduction::sum, 2); });
    expect_busy("sum of columns", terms, [&](Stream& stream) { cuda::reduce(stream, x, of_columns, section::Reduction::sum, 1); });
    for (const int axis : {0, 1}) {
      expect_busy("cumsum", terms, [&](Stream& stream) { cuda::cumsum(stream, x, x, axis, false, false); });
      if (terms > 1 << 21) continue;  // a block has a whole row
      expect_busy("softmax", terms, [&](Stream& stream) { cuda::softmax<float>(stream, x, x, axis); });
      const View places = nowhere({axis ? rows : columns}, DType::i64);
      expect_busy("argmax", terms, [&](Stream& stream) { cuda::argmax(stream, x, places, axis); });
    }
    if (terms > 1 << 21) continue;
    const View labels = nowhere({rows}, DType::i32);
    expect_busy("sparse_cross_entropy", terms, [&](Stream& stream) { cuda::sparse_cross_entropy<float>(stream, x, labels, of_rows, x); });
  }
}

}  // namespace
}  // namespace lamina::tests

namespace lamina::kernels::cuda {
namespace {

TEST(Divider, QuotientsAreThoseOfTheDivision) {
  std::vector<int64_t> lengths{0x7fffffff, 0x80000000, int64_t{1} << 40}, numbers{0x7ffffffe, 0x7fffffff, 0x80000000, int64_t{1} << 45};
  for (int64_t i = 1; i < 200; ++i) lengths.push_back(i), numbers.push_back(i - 1);
  for (int bits = 1; bits < 31; ++bits)
    for (const int64_t by : {-1, 0, 1}) lengths.push_back(std::max<int64_t>(1, (int64_t{1} << bits) + by));
  for (const int64_t length : lengths) {
    const Divider divider(length);
    std::vector<int64_t> all = numbers;
    for (const int64_t times : {1, 2, 3, 1000, 65537})
      for (const int64_t by : {-1, 0, 1}) all.push_back(times * length + by);
    all.push_back(0x7fffffff / length * length), all.push_back(0x7fffffff / length * length - 1);
    for (int64_t i : all) {
      if (i < 0) continue;
      const int64_t want = i / length, rest = i % length;
      ASSERT_EQ(divider.quotient(i), want) << i << " / " << length;
      ASSERT_EQ(divider.split(i), rest);
      ASSERT_EQ(i, want);
    }
  }
}

}  // namespace
}  // namespace lamina::kernels::cuda
