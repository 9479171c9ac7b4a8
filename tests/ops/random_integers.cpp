// random_integers and random_truncated_normal.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "kernels/shared/philox.h"
#include "runtime/core/error.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

// f(block, index in it) for element i of model m's draw, with `per_block` elements per Philox block.
template <class F>
std::vector<std::vector<double>> drawn(const Tensor& state, const TensorType& type, int64_t per_block, F f) {
  const int64_t models = state.size() / 2, n = models ? size_of(type.shape).number() / models : 0;
  std::vector<double> y;
  for (int64_t m = 0; m < models; ++m)
    for (int64_t i = 0; i < n; ++i)
      y.push_back(f(philox::draw(state.data<int64_t>()[2 * m], state.data<int64_t>()[2 * m + 1], i / per_block), i % per_block));
  return {y};
}

const std::vector<std::pair<Shape, Shape>> kDraws{{{37}, {2}}, {{5, 7}, {2}}, {{3, 11}, {3, 2}}, {{}, {2}}, {{0, 4}, {2}}};

const OpCases integer_cases{
    "random_integers", [] {
      std::vector<OpCase> out;
      for (DType dtype : kIntegers)
        for (const auto& [shape, state] : kDraws) {
          const ops::RandomIntegersAttrs a{{dtype, shape}, is_signed(dtype) ? -20 : 3, 100};
          out.push_back(
              {.name = cat(a.type, " state [", text(state), "]"), .in = {{i64(state), 0, 0, {17, 3, -5, 8}}}, .attrs = ir::make_attrs(a)});
          out.back().reference = [a](const std::vector<Tensor>& in) {
            return drawn(in[0], a.type, 2, [&](const philox::Block& b, int64_t at) {
              // floor(range * word / 2^64), in two steps of 32 bits
              const uint64_t range = uint64_t(a.high - a.low), low = (b.word[2 * at] * range) >> 32;
              return double(a.low) + double((b.word[2 * at + 1] * range + low) >> 32);
            });
          };
        }
      return out;
    }};

double share_below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// The quantile u of the normal distribution truncated to [low, high], by bisection.
double quantile(const ops::TruncatedNormalAttrs& a, double u) {
  auto below = [&](double v) { return share_below((v - a.mean) / a.deviation); };
  const double wanted = below(a.low) + u * (below(a.high) - below(a.low));
  double low = a.low, high = a.high;
  for (int i = 0; i < 200; ++i) (below((low + high) / 2) < wanted ? low : high) = (low + high) / 2;
  return low;
}

const OpCases normal_cases{
    "random_truncated_normal", [] {
      std::vector<OpCase> out;
      for (DType dtype : kFloating)
        for (const auto& [shape, state] : kDraws) {
          const ops::TruncatedNormalAttrs a{{dtype, shape}, 0.5, 2, -3, 4};
          out.push_back(
              {.name = cat(a.type, " state [", text(state), "]"), .in = {{i64(state), 0, 0, {17, 3, -5, 8}}}, .attrs = ir::make_attrs(a)});
          out.back().reference = [a](const std::vector<Tensor>& in) {
            const bool wide = a.type.dtype == DType::f64;
            return drawn(in[0], a.type, wide ? 2 : 4, [&](const philox::Block& b, int64_t at) {
              return quantile(a,
                              wide ? philox::unit53(b.word[2 * at], b.word[2 * at + 1]) + 0x1p-54 : (double(b.word[at]) + 0.5) * 0x1p-32);
            });
          };
          out.back().ulps = 32, out.back().of_largest = 1;  // for f64: the reference's differences of probabilities are inexact
        }
      return out;
    }};

Tensor draw(const ir::AttrsRef& attrs, const ir::OpDef& op) {
  ir::Graph g;
  g.outputs = {g.add(op, attrs, {g.add_input(i64({2}))})};
  return evaluate(g, {Tensor::of<int64_t>({2}, {5, 1})})[0];
}

TEST(RandomIntegers, AreAllInRangeAndEquallyLikely) {
  const Tensor t = draw(ir::make_attrs(ops::RandomIntegersAttrs{{DType::i8, {70000}}, -3, 4}), ops::def::random_integers);
  std::vector<int> count(7);
  for (int64_t i = 0; i < t.size(); ++i) ++count.at(size_t(t.at(i) + 3));
  for (int c : count) EXPECT_NEAR(c, 10000, 500);  // five standard deviations of 93
}

TEST(RandomIntegers, ReachBothEndsOfTheWidestRange) {
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const Tensor t = draw(ir::make_attrs(ops::RandomIntegersAttrs{{DType::i64, {1000}}, least, most}), ops::def::random_integers);
  const std::vector<double> v = t.values();
  EXPECT_LT(*std::min_element(v.begin(), v.end()), -0.99 * 0x1p63);
  EXPECT_GT(*std::max_element(v.begin(), v.end()), 0.99 * 0x1p63);
}

TEST(RandomTruncatedNormal, StaysInATailFarOut) {
  for (double side : {1.0, -1.0}) {
    const double a = side * 8, b = side * 9;
    const Tensor t = draw(ir::make_attrs(ops::TruncatedNormalAttrs{{DType::f64, {4000}}, 0, 1, std::min(a, b), std::max(a, b)}),
                          ops::def::random_truncated_normal);
    double mean = 0;
    for (int64_t i = 0; i < t.size(); ++i) {
      ASSERT_TRUE(std::abs(t.at(i)) >= 8 && std::abs(t.at(i)) <= 9) << t.at(i);
      mean += std::abs(t.at(i)) / 4000;
    }
    EXPECT_NEAR(mean, 8.1212, 0.01);  // phi(8) - phi(9), divided by the probability between them
  }
}

TEST(RandomIntegers, RefuseEmptyAndTooLargeRanges) {
  auto refused = [](const ops::RandomIntegersAttrs& a) {
    EXPECT_THROW(draw(ir::make_attrs(a), ops::def::random_integers), Error) << a.low << " " << a.high;
  };
  refused({{DType::i32, {2}}, 3, 3});
  refused({{DType::u8, {2}}, -1, 3});
  refused({{DType::u8, {2}}, 0, 257});
  refused({{DType::f32, {2}}, 0, 3});
  EXPECT_EQ(draw(ir::make_attrs(ops::RandomIntegersAttrs{{DType::u8, {2}}, 255, 256}), ops::def::random_integers).at(0), 255);
  for (const ops::TruncatedNormalAttrs& a :
       {ops::TruncatedNormalAttrs{{DType::f32, {2}}, 0, 0, -1, 1}, ops::TruncatedNormalAttrs{{DType::f32, {2}}, 0, 1, 1, 1},
        ops::TruncatedNormalAttrs{{DType::f32, {2}}, 0, 1, std::nan(""), 1}, ops::TruncatedNormalAttrs{{DType::f32, {2}}, 0, 1, 50, 60}})
    EXPECT_THROW(draw(ir::make_attrs(a), ops::def::random_truncated_normal), Error);
}

}  // namespace
}  // namespace lamina::tests
