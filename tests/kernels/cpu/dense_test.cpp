#include "kernels/cpu/dense.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/reduce.h"
#include "tests/kernels/cpu/all_tiles.h"
#include "tests/ops/elementwise_rows.h"
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace lamina::kernels::cpu {
namespace {

using section::Activation;
constexpr size_t kCount = std::size(section::kActivations) + 1;  // including none
constexpr float kAlpha = 0.25f;

std::vector<float> random_numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = uniform(generator);
  return v;
}

double activated(double z, Activation a) {
  return a == Activation::none ? z : tests::elementwise_row(section::row_of(a).name).f(z, kAlpha, 0);
}
// y: the activation's result, or its input if section::of_input().
double slope(double y, Activation a) {
  return a == Activation::none ? 1 : tests::elementwise_row(name(section::row_of(a).gradient)).f(1, y, kAlpha);
}

// A sum of `terms` products with absolute values adding up to `size` may be off by one rounding per term.
double bound(int64_t terms, double size) { return 6e-8 * double(terms + 4) * size + 1e-30; }

constexpr float kUntouched = 12345;  // guard value around results

struct Sizes {
  int64_t rows, k, n;
};
std::vector<Sizes> sizes() {
  std::vector<Sizes> all;
  const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 20};
  for (int64_t n = 1; n <= 40; ++n)
    for (int64_t i = 0; i < 3; ++i) all.push_back({rows[(n * 3 + i) % 10], 1 + (n * 7 + i * 5) % 40, n});
  for (int64_t r = 1; r <= 130; r += r < 32 ? 1 : 7) all.push_back({r, 13, 17});
  for (int64_t n : {63, 64, 65, 100, 128, 200, 256, 300}) all.push_back({20, 64, n}), all.push_back({1, n, 64}), all.push_back({14, n, n});
  all.push_back({20, 784, 64});
  all.push_back({20, 64, 10});
  all.push_back({130, 700, 33});
  all.push_back({3, 600, 700});
  all.push_back({200, 64, 64});
  all.push_back({100, 300, 40});
  return all;
}

TEST(DenseTiles, AgreeWithDoubleForAllShapes) {
  for (const auto& [name, tiles] : all_tiles()) {
    int turn = 0;
    for (const auto& [rows, k, n] : sizes()) {
      SCOPED_TRACE(testing::Message() << name << " [" << rows << "," << k << "]x[" << k << "," << n << "]");
      const Activation activation = Activation(size_t(turn++) % kCount);
      const bool bias = turn % 3 != 0;
      auto x = random_numbers(rows * k, 1), w = random_numbers(k * n, 2), b = random_numbers(n, 3);
      std::vector<float> y(size_t(rows * n + 16), kUntouched);
      dense(tiles, x.data(), w.data(), bias ? b.data() : nullptr, y.data(), {0, rows}, {0, n}, k, n, activation, kAlpha);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double z = 0, size = 0;
          for (int64_t q = 0; q < k; ++q)
            z += double(x[size_t(i * k + q)]) * w[size_t(q * n + j)], size += std::abs(double(x[size_t(i * k + q)]) * w[size_t(q * n + j)]);
          if (bias) z += b[size_t(j)], size += std::abs(b[size_t(j)]);
          ASSERT_NEAR(y[size_t(i * n + j)], activated(z, activation),
                      bound(k, size) + (activation > Activation::relu ? 3e-7 + 4e-7 * std::abs(z) : 0))
              << i << "," << j;
        }
      for (int64_t e = rows * n; e < rows * n + 16; ++e) ASSERT_EQ(y[size_t(e)], kUntouched);
    }
  }
}

#if defined(__SSE2__)
TEST(DenseTiles, TakeSubnormalNumbersAsZeroAndLeaveTheThreadsModeAlone) {
  for (const auto& [name, tiles] : all_tiles())
    for (auto [rows, k, n] : {Sizes{1, 40, 40}, Sizes{1, 1, 17}, Sizes{20, 64, 64}, Sizes{3, 5, 7}}) {
      SCOPED_TRACE(testing::Message() << name << " [" << rows << "," << k << "]x[" << k << "," << n << "]");
      const auto element = [&, rows = rows, k = k, n = n](float x, float w) {
        const std::vector<float> a(size_t(rows * k), x), b(size_t(k * n), w);
        std::vector<float> y(size_t(rows * n), kUntouched), dx(size_t(rows * n), kUntouched);
        const unsigned before = _mm_getcsr() & 0x8040;
        dense(tiles, a.data(), b.data(), nullptr, y.data(), {0, rows}, {0, n}, k, n, Activation::none, 0);
        dense_grad_input(tiles, a.data(), b.data(), nullptr, dx.data(), {0, rows}, {0, n}, n, k, Activation::none, 0);
        EXPECT_EQ(_mm_getcsr() & 0x8040, before);
        for (size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(y[i] == y[0] && dx[i] == y[0]) << i;
        return y[0];
      };
      const auto two_to = [](int power) { return std::ldexp(1.0f, power); };
      EXPECT_EQ(element(two_to(-70), two_to(-70)), 0.0f);
      EXPECT_EQ(element(two_to(-130), two_to(30)), 0.0f);
      EXPECT_EQ(element(two_to(-60), two_to(-60)), float(k) * two_to(-120));
    }
}
#endif

TEST(DenseTiles, GiveInputGradientsThatAgreeWithDouble) {
  for (const auto& [name, tiles] : all_tiles()) {
    int turn = 0;
    for (const auto& [rows, k, n] : sizes()) {
      SCOPED_TRACE(testing::Message() << name << " [" << rows << "," << n << "]x[" << k << "," << n << "]T");
      const Activation activation = Activation(size_t(turn++) % kCount);
      auto dz = random_numbers(rows * n, 1), w = random_numbers(k * n, 2), y = random_numbers(rows * k, 3);
      if (activation == Activation::softplus)
        for (float& v : y) v = std::abs(v);  // the activation's results are not negative
      std::vector<float> dx(size_t(rows * k + 16), kUntouched);
      const bool mask = turn % 5 != 0;
      dense_grad_input(tiles, dz.data(), w.data(), mask ? y.data() : nullptr, dx.data(), {0, rows}, {0, k}, k, n, activation, kAlpha);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < k; ++j) {
          double sum = 0, size = 0;
          for (int64_t q = 0; q < n; ++q)
            sum += double(dz[size_t(i * n + q)]) * w[size_t(j * n + q)],
                size += std::abs(double(dz[size_t(i * n + q)]) * w[size_t(j * n + q)]);
          const double s = mask ? slope(y[size_t(i * k + j)], activation) : 1;
          ASSERT_NEAR(dx[size_t(i * k + j)], sum * s, bound(n, size) + (activation > Activation::sigmoid ? 4e-7 * std::abs(sum) : 0))
              << i << "," << j;
        }
      for (int64_t e = rows * k; e < rows * k + 16; ++e) ASSERT_EQ(dx[size_t(e)], kUntouched);
    }
  }
}

TEST(DenseTiles, GiveWeightGradientsAndDescentThatAgreeWithDouble) {
  for (const auto& [name, tiles] : all_tiles()) {
    int turn = 0;
    for (const auto& [rows, k, n] : sizes()) {
      SCOPED_TRACE(testing::Message() << name << " [" << rows << "," << k << "]Tx[" << rows << "," << n << "]");
      auto x = random_numbers(rows * k, 1), dz = random_numbers(rows * n, 2), w = random_numbers(k * n, 3);
      const bool descend = turn++ % 2;
      const float rate = 0.125f;
      std::vector<float> to(size_t(k * n + 16), kUntouched);
      if (descend) std::copy(w.begin(), w.end(), to.begin());
      dense_grad_weight(tiles, x.data(), dz.data(), to.data(), {0, k}, rows, k, n, descend ? to.data() : nullptr, rate);
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double g = 0, size = 0;
          for (int64_t q = 0; q < rows; ++q)
            g += double(x[size_t(q * k + i)]) * dz[size_t(q * n + j)],
                size += std::abs(double(x[size_t(q * k + i)]) * dz[size_t(q * n + j)]);
          const double want = descend ? w[size_t(i * n + j)] - rate * g : g;
          ASSERT_NEAR(to[size_t(i * n + j)], want,
                      bound(rows, descend ? rate * size + std::abs(w[size_t(i * n + j)]) / double(rows + 4) : size))
              << i << "," << j;
        }
      for (int64_t e = k * n; e < k * n + 16; ++e) ASSERT_EQ(to[size_t(e)], kUntouched);
    }
  }
}

TEST(DenseTiles, SumTheBiasGradientAsReduceDoes) {
  for (const auto& [name, tiles] : all_tiles())
    for (int64_t rows : {0, 1, 2, 20, 31, 32, 33, 64, 65, 96, 97, 130, 224, 1024, 1100})
      for (int64_t n : {1, 2, 7, 8, 16, 40, 64, 70}) {
        auto dz = random_numbers(rows * n, 4);
        std::vector<float> db(size_t(n + 1), kUntouched), want(static_cast<size_t>(n));
        dense_grad_bias(tiles, dz.data(), db.data(), rows, n);
        reduce_matrix(section::Reduction::sum, section::Broadcast::row, dz.data(), want.data(), rows, n);
        ASSERT_TRUE(std::equal(want.begin(), want.end(), db.begin())) << name << " " << rows << "x" << n;
        ASSERT_EQ(db[size_t(n)], kUntouched);
      }
}

TEST(DenseTiles, TransposeAnyShape) {
  for (const auto& [name, tiles] : all_tiles())
    for (int64_t rows : {1, 3, 4, 8, 16, 17, 33})
      for (int64_t columns : {1, 2, 4, 8, 15, 16, 31, 64}) {
        auto from = random_numbers(rows * (columns + 3), 5);
        std::vector<float> to(size_t(columns * (rows + 2)), kUntouched);
        tiles.transpose_f32(from.data(), columns + 3, rows, columns, to.data(), rows + 2);
        for (int64_t j = 0; j < columns; ++j)
          for (int64_t i = 0; i < rows + 2; ++i)
            ASSERT_EQ(to[size_t(j * (rows + 2) + i)], i < rows ? from[size_t(i * (columns + 3) + j)] : kUntouched)
                << name << " " << rows << "x" << columns;
      }
}

TEST(DenseTiles, GiveARowTheSameBitsInEveryBatch) {
  constexpr int64_t k = 70, n = 48, most = 29;  // n: whole vectors, so that one row uses the special path
  auto x = random_numbers(most * k, 1), w = random_numbers(k * n, 2), b = random_numbers(n, 3), dz = random_numbers(most * n, 4),
       y = random_numbers(most * k, 5);
  for (const auto& [name, tiles] : all_tiles()) {
    std::vector<float> all(size_t(most * n)), all_dx(size_t(most * k));
    dense(tiles, x.data(), w.data(), b.data(), all.data(), {0, most}, {0, n}, k, n, Activation::tanh);
    dense_grad_input(tiles, dz.data(), w.data(), y.data(), all_dx.data(), {0, most}, {0, k}, k, n, Activation::tanh);
    for (int64_t begin = 0; begin < most; begin += 3)
      for (int64_t end = begin + 1; end <= most; end += 4) {
        std::vector<float> part(size_t(most * n)), part_dx(size_t(most * k));
        dense(tiles, x.data(), w.data(), b.data(), part.data(), {begin, end}, {0, n}, k, n, Activation::tanh);
        dense_grad_input(tiles, dz.data(), w.data(), y.data(), part_dx.data(), {begin, end}, {0, k}, k, n, Activation::tanh);
        ASSERT_TRUE(std::equal(part.begin() + begin * n, part.begin() + end * n, all.begin() + begin * n))
            << name << " rows " << begin << " to " << end;
        ASSERT_TRUE(std::equal(part_dx.begin() + begin * k, part_dx.begin() + end * k, all_dx.begin() + begin * k))
            << name << " rows " << begin << " to " << end;
      }
  }
}

// A dense layer equals matmul, addition and activation bit for bit: fusing changes no number.
TEST(DenseTiles, AddTheBiasAfterTheSum) {
  constexpr int64_t rows = 7, k = 50, n = 21;
  auto x = random_numbers(rows * k, 1), w = random_numbers(k * n, 2), b = random_numbers(n, 3);
  for (const auto& [name, tiles] : all_tiles()) {
    std::vector<float> product(size_t(rows * n)), fused(size_t(rows * n));
    dense(tiles, x.data(), w.data(), nullptr, product.data(), {0, rows}, {0, n}, k, n, Activation::none);
    dense(tiles, x.data(), w.data(), b.data(), fused.data(), {0, rows}, {0, n}, k, n, Activation::relu);
    for (int64_t i = 0; i < rows * n; ++i) {
      const float z = product[size_t(i)] + b[size_t(i % n)];
      ASSERT_EQ(fused[size_t(i)], z <= 0 ? 0.0f : z) << name;
    }
  }
}

TEST(DenseTiles, PassNotANumberThroughRelu) {
  for (const auto& [name, tiles] : all_tiles()) {
    const float nan = std::nanf("");
    std::vector<float> x{nan, -1, 2}, w(5, 1.0f), y(15);
    dense(tiles, x.data(), w.data(), nullptr, y.data(), {0, 3}, {0, 5}, 1, 5, Activation::relu);
    for (int j = 0; j < 5; ++j) {
      EXPECT_TRUE(std::isnan(y[size_t(j)])) << name;
      EXPECT_EQ(y[size_t(5 + j)], 0.0f) << name;
      EXPECT_EQ(y[size_t(10 + j)], 2.0f) << name;
    }
  }
}

TEST(DenseTiles, HandleSizesOfZero) {
  for (const auto& [name, tiles] : all_tiles()) {
    std::vector<float> x(20, 1.0f), b{1, -2, 3}, y(6, kUntouched), dx(6, kUntouched), dw(6, kUntouched);
    dense(tiles, x.data(), x.data(), b.data(), y.data(), {0, 2}, {0, 3}, 0, 3, Activation::relu);
    EXPECT_EQ(y, (std::vector<float>{1, 0, 3, 1, 0, 3})) << name;
    dense_grad_input(tiles, x.data(), x.data(), nullptr, dx.data(), {0, 2}, {0, 3}, 3, 0, Activation::none);
    EXPECT_EQ(dx, std::vector<float>(6, 0.0f)) << name;
    dense_grad_weight(tiles, x.data(), x.data(), dw.data(), {0, 2}, 0, 2, 3, nullptr, 0);
    EXPECT_EQ(dw, std::vector<float>(6, 0.0f)) << name;
  }
}

}  // namespace
}  // namespace lamina::kernels::cpu
