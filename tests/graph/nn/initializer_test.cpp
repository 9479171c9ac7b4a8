#include "graph/nn/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "runtime/core/error.h"

namespace lamina::nn {
namespace {

using Matrix = std::vector<double>;

Matrix made(const Initializer& initializer, std::vector<int64_t> shape, uint64_t seed = 5) { return initializer(shape, seed); }

struct Spread {
  double mean = 0, deviation = 0, low = 0, high = 0;
};
Spread spread_of(const Matrix& v) {
  Spread m;
  m.mean = std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
  for (double x : v) m.deviation += (x - m.mean) * (x - m.mean);
  m.deviation = std::sqrt(m.deviation / double(v.size()));
  m.low = *std::min_element(v.begin(), v.end());
  m.high = *std::max_element(v.begin(), v.end());
  return m;
}

// The largest entry of |columns' Gram matrix - expected * identity|.
double gram_error(const Matrix& w, int64_t rows, int64_t columns, double expected) {
  double worst = 0;
  for (int64_t a = 0; a < columns; ++a) {
    for (int64_t b = 0; b < columns; ++b) {
      double s = 0;
      for (int64_t r = 0; r < rows; ++r) s += w[size_t(r * columns + a)] * w[size_t(r * columns + b)];
      worst = std::max(worst, std::abs(s - (a == b ? expected : 0)));
    }
  }
  return worst;
}

TEST(Initializer, FillsWithOneNumber) {
  EXPECT_EQ(made("zeros", {2, 3}), Matrix(6, 0.0));
  EXPECT_EQ(made("ones", {4}), Matrix(4, 1.0));
  EXPECT_EQ(made(constant_value(2.5), {2, 2}), Matrix(4, 2.5));
}

// 300 x 500: the mean of 150,000 draws with standard deviation s is within 5 s / sqrt(150,000) of 0, and their deviation within 1 % of s.
void expect_spread(const Initializer& initializer, double deviation, double limit) {
  SCOPED_TRACE(initializer.name());
  const Spread m = spread_of(made(initializer, {300, 500}));
  EXPECT_NEAR(m.mean, 0, 0.013 * deviation);
  EXPECT_NEAR(m.deviation, deviation, 0.01 * deviation);
  EXPECT_LE(std::max(-m.low, m.high), limit * (1 + 1e-12));
  EXPECT_GE(std::min(-m.low, m.high), 0.99 * limit);
}

TEST(Initializer, GlorotAndHeHaveTheVarianceOfTheirFormulas) {
  const double glorot = std::sqrt(2.0 / 800), he = std::sqrt(2.0 / 300), cut = 2 / 0.87962566103423978;
  expect_spread("glorot_uniform", glorot, std::sqrt(6.0 / 800));
  expect_spread("glorot_normal", glorot, cut * glorot);
  expect_spread("he_uniform", he, std::sqrt(6.0 / 300));
  expect_spread("he_normal", he, cut * he);
}

TEST(Initializer, CountsTheReceptiveFieldOfALongerShape) {
  const Spread m = spread_of(made("he_uniform", {5, 5, 12, 100}));
  EXPECT_LE(m.high, std::sqrt(6.0 / 300));
  EXPECT_GE(m.high, 0.99 * std::sqrt(6.0 / 300));
}

TEST(Initializer, OrthogonalHasOrthonormalColumnsOrRows) {
  EXPECT_LT(gram_error(made("orthogonal", {64, 64}), 64, 64, 1), 1e-13);
  EXPECT_LT(gram_error(made("orthogonal", {784, 32}), 784, 32, 1), 1e-13);
  EXPECT_LT(gram_error(made(orthogonal(3), {64, 10}), 64, 10, 9), 1e-12);
  const Matrix wide = made("orthogonal", {10, 64});
  Matrix turned(wide.size());
  for (int r = 0; r < 10; ++r) {
    for (int c = 0; c < 64; ++c) turned[size_t(c * 10 + r)] = wide[size_t(r * 64 + c)];
  }
  EXPECT_LT(gram_error(turned, 64, 10, 1), 1e-13);
}

TEST(Initializer, LooksLinearMirrorsAnOrthogonalMatrix) {
  const Matrix w = made("looks_linear", {64, 48});
  Matrix q(32 * 24);
  for (int r = 0; r < 64; ++r) {
    for (int c = 0; c < 48; ++c) {
      const double v = w[size_t(r * 48 + c)];
      if (r < 32 && c < 24) q[size_t(r * 24 + c)] = v;
      const double twin = w[size_t(r % 32 * 48 + c % 24)];
      ASSERT_EQ(v, (r < 32) == (c < 24) ? twin : -twin) << r << ' ' << c;
    }
  }
  EXPECT_LT(gram_error(q, 32, 24, 1), 1e-13);
  const Matrix first = made(looks_linear(false, true), {6, 4}), last = made(looks_linear(true, false), {4, 3});
  for (int r = 0; r < 6; ++r) EXPECT_EQ(first[size_t(r * 4)], -first[size_t(r * 4 + 2)]);
  for (int c = 0; c < 3; ++c) EXPECT_EQ(last[size_t(c)], -last[size_t(6 + c)]);
}

// Why the benchmark's network learns: through ReLU layers activations keep their norm at any depth, and the whole is linear.
TEST(Initializer, AHundredMirroredReluLayersAreAnIsometry) {
  constexpr int kWidth = 64, kLayers = 100;
  const auto norm = [](const Matrix& v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); };
  const auto run = [&](Matrix h, std::vector<double>* norms) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const int inputs = layer == 0 ? kWidth / 2 : kWidth;
      const Matrix w = made(looks_linear(layer > 0, true), {inputs, kWidth}, uint64_t(layer));
      Matrix next(kWidth);
      for (int c = 0; c < kWidth; ++c) {
        for (int r = 0; r < inputs; ++r) next[size_t(c)] += h[size_t(r)] * w[size_t(r * kWidth + c)];
        next[size_t(c)] = std::max(next[size_t(c)], 0.0);
      }
      h = std::move(next);
      if (norms) norms->push_back(norm(h));
    }
    Matrix folded(kWidth / 2);
    for (size_t i = 0; i < folded.size(); ++i) folded[i] = h[i] - h[i + folded.size()];
    return folded;
  };
  const Matrix a = made("glorot_normal", {32}, 1), b = made("glorot_normal", {32}, 2);
  Matrix sum(32);
  for (size_t i = 0; i < 32; ++i) sum[i] = a[i] + b[i];
  std::vector<double> norms;
  const Matrix fa = run(a, &norms), fb = run(b, nullptr), fsum = run(sum, nullptr);
  for (double n : norms) EXPECT_NEAR(n / norm(a), 1, 1e-12);
  for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(fsum[i], fa[i] + fb[i], 1e-12 * norm(sum));
}

TEST(Initializer, FollowsFromItsSeed) {
  for (const char* name : {"glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "orthogonal", "looks_linear"}) {
    EXPECT_EQ(made(name, {8, 6}, 3), made(name, {8, 6}, 3)) << name;
    EXPECT_NE(made(name, {8, 6}, 3), made(name, {8, 6}, 4)) << name;
    EXPECT_EQ(made(Initializer(name).seeded(9), {8, 6}, 3), made(name, {8, 6}, 9)) << name;
  }
}

TEST(Initializer, RefusesUnsupportedShapes) {
  const auto what = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return cat(name(e.kind), ": ", e.parts.what, "; ", e.parts.why);
    }
    return "no error";
  };
  EXPECT_EQ(what([] { made("looks_linear", {7, 4}); }),
            "invalid argument: looks_linear: cannot fill a weight of shape [7,4]; a mirrored input has two equal halves, 7 is odd");
  EXPECT_EQ(what([] { made("looks_linear", {8, 5}); }),
            "invalid argument: looks_linear: cannot fill a weight of shape [8,5]; a mirrored output has two equal halves, 5 is odd");
  EXPECT_EQ(what([] { made("orthogonal", {8}); }),
            "invalid argument: orthogonal: cannot fill a weight of shape [8]; it makes matrices, at least two dimensions");
  EXPECT_THROW(made("glorot_unifrom", {2, 2}), Error);
  EXPECT_THROW(made("zeros", {int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_TRUE(made("orthogonal", {0, 4}).empty());
}

}  // namespace
}  // namespace lamina::nn
