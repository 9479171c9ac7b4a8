#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/section/table.h"
#include "runtime/core/config.h"
#include "tests/kernels/cpu/all_tiles.h"

namespace lamina::kernels::cpu {
namespace {

class MatmulKernel : public testing::Test {
 protected:
  void TearDown() override {
    config::set_threads(threads_);
    config::set_cpu_isa(isa_);
  }
  const int threads_ = config::threads();
  const std::string isa_ = config::cpu_isa();
};

template <class T>
std::vector<T> numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) x = std::is_integral_v<T> ? T(generator()) : T(uniform(generator));
  return v;
}

struct ProductSizes {
  int64_t m, n, k;
};
constexpr ProductSizes kSizes[] = {{1, 1, 1},      {1, 64, 64},   {20, 10, 64},  {7, 5, 3},   {64, 64, 64}, {100, 37, 53},  {130, 129, 300},
                                   {13, 300, 600}, {1, 200, 900}, {200, 3, 257}, {97, 97, 1}, {5, 6, 0},    {150, 1100, 20}};

template <class T>
void check(const ProductSizes& s, bool ta, bool tb, double epsilon) {
  SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << "x" << s.k << (ta ? " a transposed" : "") << (tb ? " b transposed" : ""));
  const int64_t lda = (ta ? s.m : s.k) + 3, ldb = (tb ? s.k : s.n) + 2, ldc = s.n + 1;
  auto a = numbers<T>(lda * (ta ? s.k : s.m), 1), b = numbers<T>(ldb * (tb ? s.n : s.k), 2);
  std::vector<T> c(size_t(ldc * s.m), T(77));
  matmul<T>(s.m, s.n, s.k, a.data(), lda, ta, b.data(), ldb, tb, c.data(), ldc, Device{});
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0, size = 0;
      uint64_t wrapped = 0;
      for (int64_t q = 0; q < s.k; ++q) {
        const T x = a[size_t(ta ? q * lda + i : i * lda + q)], y = b[size_t(tb ? j * ldb + q : q * ldb + j)];
        if constexpr (std::is_integral_v<T>)
          wrapped += uint64_t(int64_t(x)) * uint64_t(int64_t(y));
        else
          sum += double(x) * double(y), size += std::abs(double(x) * double(y));
      }
      const T got = c[size_t(i * ldc + j)];
      if constexpr (std::is_integral_v<T>)
        ASSERT_EQ(got, T(wrapped));
      else
        ASSERT_NEAR(double(got), sum, epsilon * (sizeof(T) == 2 ? std::abs(sum) + 1e-3 : double(s.k + 2) * size + 1e-30)) << i << "," << j;
    }
    ASSERT_EQ(double(c[size_t(i * ldc + s.n)]), 77) << "beyond the row";
  }
}

TEST_F(MatmulKernel, AgreesWithDoubleForAllTypesAndTranspositions) {
  for (const std::string& isa : runnable_isas()) {
    config::set_cpu_isa(isa);
    for (const ProductSizes& s : kSizes)
      for (bool ta : {false, true})
        for (bool tb : {false, true}) {
          check<float>(s, ta, tb, 6e-8);
          check<double>(s, ta, tb, 1.2e-16);
          if (s.m * s.n * s.k > 500000) continue;
          check<f16>(s, ta, tb, 6e-4);
          check<bf16>(s, ta, tb, 5e-3);
          check<int32_t>(s, ta, tb, 0);
          check<int64_t>(s, ta, tb, 0);
        }
  }
}

TEST_F(MatmulKernel, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const std::string& isa : runnable_isas()) {
    config::set_cpu_isa(isa);
    for (auto [m, n, k] : {ProductSizes{257, 130, 300}, {60, 500, 200}, {1, 3000, 900}, {3000, 4, 500}})
      for (bool tb : {false, true}) {
        auto a = numbers<float>(m * k, 1), b = numbers<float>(k * n, 2);
        std::vector<float> first;
        for (int threads : {1, 2, 3, 4, 7}) {
          config::set_threads(threads);
          std::vector<float> c(size_t(m * n));
          matmul<float>(m, n, k, a.data(), k, false, b.data(), tb ? k : n, tb, c.data(), n, Device{});
          if (first.empty()) first = c;
          ASSERT_EQ(c, first) << isa << " " << m << "x" << n << "x" << k << " threads " << threads;
        }
      }
  }
}

TEST_F(MatmulKernel, GivesTheSameBitsOnEveryInstructionSet) {
  auto same = [&]<class T>(T) {
    for (auto [m, n, k] : {ProductSizes{57, 130, 300}, {1, 64, 900}, {20, 64, 64}, {1, 200, 900}, {7, 5, 3}})
      for (bool tb : {false, true}) {
        auto a = numbers<T>(m * k, 1), b = numbers<T>(k * n, 2);
        std::vector<T> first;
        for (const std::string& isa : runnable_isas()) {
          config::set_cpu_isa(isa);
          std::vector<T> c(size_t(m * n));
          matmul<T>(m, n, k, a.data(), k, false, b.data(), tb ? k : n, tb, c.data(), n, Device{});
          if (first.empty()) first = c;
          ASSERT_EQ(std::memcmp(first.data(), c.data(), c.size() * sizeof(T)), 0) << isa << " " << m << "x" << n << "x" << k;
        }
      }
  };
  same(float());
  same(double());
}

// 0 in place of a subnormal float, where products take it so.
template <class T>
T taken(T x) {
#if defined(__SSE2__)
  if (sizeof(T) == 4 && std::fpclassify(x) == FP_SUBNORMAL) return std::copysign(T(0), x);
#endif
  return x;
}

// A product of one step that goes on from c is one fused multiply-add per element.
template <class T, class Bits>
void check_fused(const Tiles& tiles, std::mt19937_64& generator, int64_t count) {
  std::vector<T> a(static_cast<size_t>(count)), c(a.size()), got;
  const T b = T(0x1.8p0) + std::numeric_limits<T>::epsilon();
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = std::bit_cast<T>(Bits(generator()));
    c[i] = std::bit_cast<T>(Bits(generator()));
    // Sums with cancellation, and sums where the product affects only the rounding.
    if (i % 4 == 1) c[i] = -a[i] * b;
    if (i % 4 == 2) c[i] = std::ldexp(a[i], int(generator() % (4 * sizeof(T) * 8)) - int(2 * sizeof(T) * 8));
    if (i % 4 == 3)
      c[i] = std::ldexp(T(1) + std::numeric_limits<T>::epsilon() * T(generator() % 8), std::ilogb(a[i]) + std::numeric_limits<T>::digits);
  }
  got = c;
  tiles.multiply(
      Product<T>{.m = count, .n = 1, .k = 1, .a = a.data(), .lda = 1, .b = &b, .ldb = 1, .c = got.data(), .ldc = 1, .accumulate = true});
  for (size_t i = 0; i < a.size(); ++i) {
    const T want = taken(std::fma(taken(a[i]), b, taken(c[i])));
    if (std::isnan(want))
      ASSERT_TRUE(std::isnan(got[i]));
    else
      ASSERT_EQ(std::bit_cast<Bits>(got[i]), std::bit_cast<Bits>(want)) << a[i] << " * " << b << " + " << c[i];
  }
}

TEST_F(MatmulKernel, RoundsAProductAndItsAdditionOnceOnEveryInstructionSet) {
  for (const auto& [name, tiles] : all_tiles()) {
    SCOPED_TRACE(name);
    std::mt19937_64 generator(5);
    check_fused<float, uint32_t>(tiles, generator, 200'000);
    check_fused<double, uint64_t>(tiles, generator, 50'000);
  }
}

// Rows of a large, blocked product equal those of a small, unblocked one.
TEST_F(MatmulKernel, GivesARowTheSameBitsInEveryShape) {
  for (const std::string& isa : runnable_isas()) {
    config::set_cpu_isa(isa);
    constexpr int64_t m = 300, n = 70, k = 600;
    auto a = numbers<float>(m * k, 1), b = numbers<float>(k * n, 2);
    std::vector<float> all(m * n), one(n);
    matmul<float>(m, n, k, a.data(), k, false, b.data(), n, false, all.data(), n, Device{});
    for (int64_t i : {0, 5, 96, 299}) {
      matmul<float>(1, n, k, a.data() + i * k, k, false, b.data(), n, false, one.data(), n, Device{});
      ASSERT_TRUE(std::equal(one.begin(), one.end(), all.begin() + i * n)) << isa << " row " << i;
    }
  }
}

}  // namespace
}  // namespace lamina::kernels::cpu
