// The distributions of draws. Seeds are fixed, so each test is deterministic; limits are five standard deviations or, for chi-square, a
// probability of about one in a million.
#include "kernels/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/dropout.h"

namespace lamina {
namespace {

template <class T>
using Draw = void (*)(Stream&, const View&, const View&, double, double);

template <class T>
std::vector<T> draw(Draw<T> kernel, std::vector<int64_t> state, int64_t n, double a, double b) {
  std::vector<T> out((size_t(n)));
  Stream stream;
  const View state_view = contiguous_view(state.data(), {DType::i64, {2}}), y = contiguous_view(out.data(), {dtype_of<T>(), {n}});
  kernel(stream, state_view, y, a, b);
  return out;
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};
template <class T>
Moments moments(const std::vector<T>& x) {
  Moments m;
  for (T v : x) m.mean += double(v) / double(x.size());
  for (T v : x) {
    const double d = double(v) - m.mean;
    m.variance += d * d / double(x.size());
    m.skewness += d * d * d / double(x.size());
    m.kurtosis += d * d * d * d / double(x.size());
  }
  m.skewness /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

// Pearson's statistic of counts against equal expectations.
double chi_square(const std::vector<int64_t>& counts) {
  double total = 0, sum = 0;
  for (int64_t c : counts) total += double(c);
  const double expected = total / double(counts.size());
  for (int64_t c : counts) sum += (double(c) - expected) * (double(c) - expected) / expected;
  return sum;
}
// Five standard deviations above the mean of a chi-square distribution with this many degrees of freedom; more for large ones.
double chi_square_limit(size_t buckets) { return double(buckets - 1) + 5 * std::sqrt(2 * double(buckets - 1)); }

constexpr int64_t kCount = 1 << 20;

template <class T>
class RandomUniform : public testing::Test {};
template <class T>
class RandomNormal : public testing::Test {};
using Floating = testing::Types<f16, bf16, float, double>;
TYPED_TEST_SUITE(RandomUniform, Floating);
TYPED_TEST_SUITE(RandomNormal, Floating);

TYPED_TEST(RandomUniform, FillsItsIntervalEvenly) {
  for (int64_t seed : {0, 1, 77}) {
    const auto x = draw<TypeParam>(kernels::cpu::random_uniform<TypeParam>, {seed, 5}, kCount, 0, 1);
    std::vector<int64_t> buckets(128);
    for (TypeParam v : x) {
      ASSERT_GE(double(v), 0);
      ASSERT_LT(double(v), 1);
      ++buckets[size_t(double(v) * 128)];
    }
    EXPECT_LT(chi_square(buckets), chi_square_limit(buckets.size()));
    const double half_step = std::is_same_v<TypeParam, bf16>  ? 0x1p-9
                             : std::is_same_v<TypeParam, f16> ? 0x1p-12
                                                              : 0;  // rounding down has a larger effect on large numbers
    EXPECT_NEAR(moments(x).mean, 0.5 - half_step, 5 * std::sqrt(1.0 / 12 / kCount));
    EXPECT_NEAR(moments(x).variance, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount) + half_step / 2);
  }
}

TYPED_TEST(RandomUniform, StaysBelowItsUpperEndAndCoversAShiftedInterval) {
  const auto x = draw<TypeParam>(kernels::cpu::random_uniform<TypeParam>, {3, 0}, kCount, -3, 5);
  const auto [low, high] = std::minmax_element(x.begin(), x.end(), [](TypeParam a, TypeParam b) { return double(a) < double(b); });
  EXPECT_GE(double(*low), -3);
  EXPECT_LT(double(*low), -2.95);
  EXPECT_LT(double(*high), 5);
  EXPECT_GT(double(*high), 4.9);
  EXPECT_NEAR(moments(x).mean, 1, 0.03);
  // An interval so narrow that almost every number rounds to an end.
  for (TypeParam v : draw<TypeParam>(kernels::cpu::random_uniform<TypeParam>, {3, 0}, 1000, 1, 1 + 1e-30)) EXPECT_EQ(double(v), 1);
}

TYPED_TEST(RandomNormal, HasTheMomentsOfTheNormalDistribution) {
  for (int64_t seed : {0, 1, 77}) {
    const Moments m = moments(draw<TypeParam>(kernels::cpu::random_normal<TypeParam>, {seed, 9}, kCount, 0, 1));
    EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(double(kCount)));
    EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2.0 / kCount) + (std::is_same_v<TypeParam, bf16> ? 1e-3 : 0));
    EXPECT_NEAR(m.skewness, 0, 5 * std::sqrt(6.0 / kCount));
    EXPECT_NEAR(m.kurtosis, 3, 5 * std::sqrt(24.0 / kCount));
  }
}

TYPED_TEST(RandomNormal, FollowsTheNormalDistributionFunction) {
  if (std::is_same_v<TypeParam, f16> || std::is_same_v<TypeParam, bf16>)
    return;  // rounding moves numbers between buckets; moments are tested instead
  std::vector<int64_t> buckets(200);
  for (TypeParam v : draw<TypeParam>(kernels::cpu::random_normal<TypeParam>, {4, 4}, kCount, 2, 3)) {
    const double p = 0.5 * std::erfc(-(double(v) - 2) / 3 / std::sqrt(2.0));  // uniform in [0, 1]
    ++buckets[std::min<size_t>(199, size_t(p * 200))];
  }
  EXPECT_LT(chi_square(buckets), chi_square_limit(buckets.size()));
}

TYPED_TEST(RandomNormal, NeighboursAndDrawsAreNotCorrelated) {
  const auto x = draw<TypeParam>(kernels::cpu::random_normal<TypeParam>, {8, 0}, kCount, 0, 1);
  const auto next = draw<TypeParam>(kernels::cpu::random_normal<TypeParam>, {8, 1}, kCount, 0, 1),
             other = draw<TypeParam>(kernels::cpu::random_normal<TypeParam>, {9, 0}, kCount, 0, 1);
  double lag1 = 0, lag2 = 0, with_next = 0, with_other = 0;
  for (size_t i = 2; i < x.size(); ++i) {
    lag1 += double(x[i]) * double(x[i - 1]) / kCount;
    lag2 += double(x[i]) * double(x[i - 2]) / kCount;
    with_next += double(x[i]) * double(next[i]) / kCount;
    with_other += double(x[i]) * double(other[i]) / kCount;
  }
  const double limit = 5 / std::sqrt(double(kCount));
  for (double c : {lag1, lag2, with_next, with_other}) EXPECT_NEAR(c, 0, limit);
}

TYPED_TEST(RandomNormal, APrefixOfADrawIsTheSameDraw) {
  const auto all = draw<TypeParam>(kernels::cpu::random_normal<TypeParam>, {8, 2}, 1000, 0, 1);
  for (int64_t n : {1, 2, 3, 4, 5, 255, 256, 257, 511, 999}) {
    const auto some = draw<TypeParam>(kernels::cpu::random_normal<TypeParam>, {8, 2}, n, 0, 1);
    for (size_t i = 0; i < some.size(); ++i) ASSERT_EQ(double(some[i]), double(all[i])) << n << " " << i;
  }
}

TEST(RandomUniformOfOneSeed, GivesTheseNumbers) {
  // Philox's known answer for counter 0 and key 0: a change here would change every saved experiment.
  const auto x = draw<float>(kernels::cpu::random_uniform<float>, {0, 0}, 4, 0, 1);
  const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(x[i], float(words[i] >> 8) / 16777216.0f);
}

TEST(DropoutDraw, DropsItsRateAndIsIndependentAmongNeighbours) {
  for (float rate : {0.0f, 0.1f, 0.5f, 0.99f}) {
    std::vector<float> x(size_t(kCount), 1.0f), y(x.size());
    const int64_t state[2] = {12, 34};
    kernels::cpu::dropout_run(x.data(), state, rate, y.data(), 0, kCount);
    double dropped = 0, both = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      dropped += y[i] == 0;
      both += i > 0 && y[i] == 0 && y[i - 1] == 0;
      if (y[i] != 0) {
        ASSERT_FLOAT_EQ(y[i], 1 / (1 - rate));
      }
    }
    const double p = rate, deviation = std::sqrt(p * (1 - p) / kCount);
    EXPECT_NEAR(dropped / kCount, p, 5 * deviation);
    EXPECT_NEAR(both / kCount, p * p, 5 * std::sqrt(p * p * (1 - p * p) * 3 / kCount));
  }
}

}  // namespace
}  // namespace lamina
