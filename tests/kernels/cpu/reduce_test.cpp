// Reductions depend only on the shape: section matrices, strided views and any number of threads give the same bits.
#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/core/config.h"

namespace lamina::kernels {
namespace {

using section::Broadcast;
using section::Reduction;

std::vector<float> numbers(size_t n) {
  std::mt19937 random(12);
  std::vector<float> out(n);
  for (float& v : out) v = std::uniform_real_distribution<float>(-2, 2)(random);
  return out;
}

TEST(ReduceKernel, AMatrixOfASectionGivesTheSameBits) {
  for (auto [rows, n] : std::vector<std::pair<int64_t, int64_t>>{{20, 64}, {1, 64}, {20, 1}, {1, 1}, {33, 5}, {1000, 300}, {3, 5000}}) {
    std::vector<float> x = numbers(size_t(rows * n));
    for (Reduction op : {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min, Reduction::prod})
      for (Broadcast reduced : {Broadcast::row, Broadcast::column, Broadcast::scalar}) {
        const int64_t size = reduced == Broadcast::row ? n : reduced == Broadcast::column ? rows : 1;
        std::vector<float> a(static_cast<size_t>(size), -1.0f), b(static_cast<size_t>(size), -2.0f);
        cpu::reduce_matrix(op, reduced, x.data(), a.data(), rows, n);
        Stream stream;
        const uint32_t axes = reduced == Broadcast::row ? 1 : reduced == Broadcast::column ? 2 : 3;
        cpu::reduce(stream, contiguous_view(x.data(), {DType::f32, {rows, n}}), contiguous_view(b.data(), {DType::f32, {size}}), op, axes);
        EXPECT_EQ(a, b) << rows << " x " << n << ", reduction " << int(op) << ", to " << int(reduced);
      }
  }
}

TEST(ReduceKernel, SomeRowsOfAColumnAreTheSameAsAll) {
  std::vector<float> x = numbers(20 * 70), all(20), some(20);
  cpu::reduce_matrix(Reduction::sum, Broadcast::column, x.data(), all.data(), 20, 70);
  cpu::reduce_matrix(Reduction::sum, Broadcast::column, x.data(), some.data(), 7, 70);
  cpu::reduce_matrix(Reduction::sum, Broadcast::column, x.data() + 7 * 70, some.data() + 7, 13, 70);
  EXPECT_EQ(all, some);
}

TEST(ReduceKernel, DoesNotDependOnTheNumberOfThreads) {
  const int threads = config::threads();
  for (auto [rows, n] : std::vector<std::pair<int64_t, int64_t>>{{1, 300001}, {5, 40000}, {40000, 5}, {700, 700}})
    for (uint32_t axes : {1u, 2u, 3u}) {
      std::vector<float> x = numbers(size_t(rows * n)), first;
      const int64_t size = axes == 1 ? n : axes == 2 ? rows : 1;
      for (int count : {1, 2, 3, 4}) {
        config::set_threads(count);
        std::vector<float> y(static_cast<size_t>(size));
        Stream stream;
        cpu::reduce(stream, contiguous_view(x.data(), {DType::f32, {rows, n}}), contiguous_view(y.data(), {DType::f32, {size}}),
                    Reduction::sum, axes);
        if (first.empty()) first = y;
        EXPECT_EQ(y, first) << rows << " x " << n << " over " << axes << " with " << count;
      }
    }
  config::set_threads(threads);
}

}  // namespace
}  // namespace lamina::kernels
