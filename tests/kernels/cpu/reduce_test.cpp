// Reductions depend only on the shape: section matrices, strided views and any number of threads give the same bits.
#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/argmax.h"
#include "kernels/cpu/indices.h"
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
  for (auto [rows, n] : std::vector<std::pair<int64_t, int64_t>>{{1, 300001}, {5, 40000}, {40000, 5}, {700, 700}, {40, 9000}})
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

TEST(ReduceKernel, ANaNAnywhereIsTheLargestAndTheSmallest) {
  const std::string isa = config::cpu_isa();
  for (const std::string& name : std::vector<std::string>{"scalar", config::best_cpu_isa()}) {
    config::set_cpu_isa(name);
    for (size_t n : {1, 31, 32, 45, 128, 1024, 3000}) {
      std::vector<float> x = numbers(n);
      const auto chosen = [&](Reduction op) {
        float y = 0;
        cpu::reduce_matrix(op, Broadcast::scalar, x.data(), &y, 1, int64_t(n));
        return y;
      };
      EXPECT_EQ(chosen(Reduction::max), *std::max_element(x.begin(), x.end())) << n << " on " << name;
      EXPECT_EQ(chosen(Reduction::min), *std::min_element(x.begin(), x.end())) << n << " on " << name;
      for (size_t at = 0; at < n; at += at < 40 || at + 40 > n ? 1 : 37) {
        const float before = std::exchange(x[at], std::numeric_limits<float>::quiet_NaN());
        EXPECT_TRUE(std::isnan(chosen(Reduction::max))) << at << " of " << n << " on " << name;
        EXPECT_TRUE(std::isnan(chosen(Reduction::min))) << at << " of " << n << " on " << name;
        x[at] = before;
      }
    }
  }
  config::set_cpu_isa(isa);
}

// Of equal ones the first, and the first NaN before all.
template <class T>
void expect_places_of_the_largest() {
  std::mt19937 random(3);
  for (auto [rows, n] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 40}, {5, 300}, {300, 5}, {70, 1500}, {20, 3000}})
    for (int nans : {0, 3, 200}) {
      std::vector<T> x(size_t(rows * n));
      for (T& v : x) v = T(int(random() % 7)) - 3;
      for (int i = 0; i < nans; ++i) x[random() % x.size()] = std::numeric_limits<T>::quiet_NaN();
      for (int axis : {0, 1}) {
        std::vector<int64_t> wanted, found(size_t(axis ? rows : n));
        for (int64_t o = 0; o < (axis ? rows : n); ++o) {
          const auto at = [&](int64_t i) { return axis ? x[size_t(o * n + i)] : x[size_t(i * n + o)]; };
          int64_t best = 0;
          for (int64_t i = 1; i < (axis ? n : rows); ++i)
            if (!std::isnan(at(best)) && (std::isnan(at(i)) || at(i) > at(best))) best = i;
          wanted.push_back(best);
        }
        const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
        Stream stream;
        cpu::argmax(stream, contiguous_view(x.data(), {dtype, {rows, n}}),
                    contiguous_view(found.data(), {DType::i64, {Dim(int64_t(found.size()))}}), axis);
        EXPECT_EQ(found, wanted) << rows << " x " << n << " of " << dtype << ", axis " << axis << ", NaNs " << nans;
      }
    }
}
TEST(ArgmaxKernel, FindsTheFirstOfTheLargest) {
  const std::string isa = config::cpu_isa();
  for (const std::string& name : std::vector<std::string>{"scalar", config::best_cpu_isa()}) {
    config::set_cpu_isa(name);
    expect_places_of_the_largest<float>();
    expect_places_of_the_largest<double>();
  }
  config::set_cpu_isa(isa);
}

TEST(Indices, TheFirstOutOfRangeIsFound) {
  using Limits = std::numeric_limits<int64_t>;
  for (int64_t length : {int64_t(0), int64_t(1), int64_t(5), Limits::max() / 2})
    for (int64_t index : {int64_t(0), int64_t(1), int64_t(4), int64_t(5), int64_t(-1), int64_t(-5), int64_t(-6), Limits::max(),
                          Limits::min(), Limits::min() + 1, Limits::max() - 1}) {
      std::vector<int64_t> indices{index, index};
      const View view = contiguous_view(indices.data(), {DType::i64, {2}});
      EXPECT_EQ(cpu::first_out_of_range(view, length), index < -length || index >= length ? 0 : -1) << index << " of " << length;
    }
  std::vector<int8_t> few{0, 3, -4, -5, 7};
  EXPECT_EQ(cpu::first_out_of_range(contiguous_view(few.data(), {DType::i8, {5}}), 4), 3);
  EXPECT_EQ(cpu::first_out_of_range(contiguous_view(few.data(), {DType::i8, {0}}), 0), -1);
}

}  // namespace
}  // namespace lamina::kernels
