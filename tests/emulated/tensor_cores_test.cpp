// Tensor core instructions on the host: their roundings, and their fragments against plain products in double.
#include <cmath>
#include <limits>
#include <random>

#include "runtime/core/half.h"
#include "tests/emulated/emulated.h"

namespace lamina::kernels::cuda {
namespace {

float float_of(unsigned bits) {
  float v;
  std::memcpy(&v, &bits, 4);
  return v;
}
// Rounds to `digits` significant bits by arithmetic, not by bits; ties away from zero.
double rounded(double v, int digits) {
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, digits)), exponent - digits);
}

TEST(TensorCores, RoundTiesToTf32AwayFromZero) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const unsigned bits = unsigned(random()) & ~(i % 3 == 0 ? 0xfffu : 0u);  // a third of them are ties or exact
    const float v = float_of(bits);
    if (!std::isnormal(v) || std::fabs(v) > 3e38f) continue;
    EXPECT_EQ(double(float_of(tf32_bits(v))), rounded(v, 11)) << v;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_of(tf32_bits(-infinity)), -infinity);
  EXPECT_EQ(float_of(tf32_bits(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::isnan(float_of(tf32_bits(std::nanf("")))));
  EXPECT_EQ(tf32_bits(-0.0f), 0x80000000u);
  EXPECT_EQ(float_of(tf32_bits(float_of(0x1fffu))), float_of(0x2000u)) << "subnormal numbers round too";
}

TEST(TensorCores, RoundToBf16AsTheTypeDoes) {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const float low = float_of(unsigned(random()) & ~(i % 3 == 0 ? 0x7fffu : 0u)), high = float_of(unsigned(random()));
    if (std::isnan(low) || std::isnan(high)) continue;
    EXPECT_EQ(bf16_pair(low, high), unsigned(bf16(low).bits) | unsigned(bf16(high).bits) << 16) << low << " " << high;
  }
  EXPECT_TRUE(std::isnan(float(bf16_value(uint16_t(bf16_pair(std::nanf(""), 0))))));
}

// Ways to break the fragments.
enum class Planted : int { nothing, exchanged_a, exchanged_rows, exchanged_b, transposed_b, exchanged_c, late_lane };

// Each warp: c [16, 8] = a [16, depth] b [depth, 8] + c, by the tables of the PTX manual ("Matrix fragments for mma.m16n8k8" and k16).
template <bool bf16s>
LAMINA_KERNEL(64)
one_product(const float* a, const float* b, float* c, Planted planted) {
  constexpr int depth = bf16s ? 16 : 8;
  a += warp_index() * 16 * depth, b += warp_index() * depth * 8, c += warp_index() * 16 * 8;
  const int group = int(lane() >> 2), in_group = int(lane() % 4);
  unsigned first[4], second[2];
  for (int i = 0; i < 4; ++i) {
    int row = i == 0 || i == 2 ? group : group + 8, k = i < 2 ? in_group : in_group + 4;
    if (planted == Planted::exchanged_rows) row = i < 2 ? group : group + 8;
    if (bf16s) {
      k = i < 2 ? 2 * in_group : 2 * in_group + 8;
      first[i] = bf16_pair(a[row * depth + k], a[row * depth + k + 1]);
    } else {
      first[i] = tf32_bits(a[row * depth + k]);
    }
  }
  for (int i = 0; i < 2; ++i) {
    int k = in_group + 4 * i, column = group;
    if (planted == Planted::transposed_b) k = group, column = in_group + 4 * i;
    if (bf16s) {
      k = 2 * in_group + 8 * i;
      if (planted == Planted::transposed_b) k = 2 * (group / 2), column = in_group + 4 * i;
      second[i] = bf16_pair(b[k * 8 + column], b[(k + 1) * 8 + column]);
    } else {
      second[i] = tf32_bits(b[k * 8 + column]);
    }
  }
  if (planted == Planted::exchanged_a) {
    const unsigned other = first[0];
    first[0] = first[3], first[3] = other;
  }
  if (planted == Planted::exchanged_b) {
    const unsigned other = second[0];
    second[0] = second[1], second[1] = other;
  }
  float sums[4];
  auto place = [&](int i) {
    const int row = i < 2 ? group : group + 8, column = 2 * in_group + (planted == Planted::exchanged_c ? 1 - i % 2 : i % 2);
    return row * 8 + column;
  };
  for (int i = 0; i < 4; ++i) sums[i] = c[planted == Planted::exchanged_c ? place(i ^ 1) : place(i)];
  if (planted == Planted::late_lane && thread_index() == 7) return;
  if (bf16s)
    mma_bf16(sums, first, second);
  else
    mma_tf32(sums, first, second);
  sync_warp();
  for (int i = 0; i < 4; ++i) c[place(i)] = sums[i];
}

// The largest error of both warps' products against double-precision products of rounded operands, relative to the terms' sizes.
template <bool bf16s>
double error_of(Planted planted) {
  constexpr int depth = bf16s ? 16 : 8, warps = 2;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  auto numbers = [&](int count) {
    std::vector<float> v(static_cast<size_t>(count));
    for (float& x : v) x = normal(random);
    return v;
  };
  const std::vector<float> a = numbers(warps * 16 * depth), b = numbers(warps * depth * 8), start = numbers(warps * 16 * 8);
  Buffer<float> first(a), second(b), c(start);
  launch<one_product<bf16s>>(emulated_stream(), {.threads = warps * kWarp}, first.data(), second.data(), c.data(), planted);
  auto operand = [](float v) { return bf16s ? double(float(bf16(v))) : rounded(v, 11); };
  double worst = 0;
  for (int w = 0; w < warps; ++w)
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        const size_t at = size_t((w * 16 + row) * 8 + column);
        double sum = start[at], size = std::fabs(sum);
        for (int k = 0; k < depth; ++k) {
          const double term = operand(a[size_t((w * 16 + row) * depth + k)]) * operand(b[size_t((w * depth + k) * 8 + column)]);
          sum += term, size += std::fabs(term);
        }
        worst = std::max(worst, std::fabs(c[at] - sum) / size);
      }
  return worst;
}

constexpr double kOneRounding = 0x1p-24;

TEST(TensorCores, MultiplyByTheManualsFragments) {
  in_every_order([] {
    EXPECT_LE(error_of<false>(Planted::nothing), kOneRounding) << "tf32";
    EXPECT_LE(error_of<true>(Planted::nothing), kOneRounding) << "bf16";
  });
}

TEST(TensorCores, AWrongFragmentIsFound) {
  for (Planted planted :
       {Planted::exchanged_a, Planted::exchanged_rows, Planted::exchanged_b, Planted::transposed_b, Planted::exchanged_c}) {
    EXPECT_GE(error_of<false>(planted), 0.05) << "tf32, mistake " << int(planted);
    EXPECT_GE(error_of<true>(planted), 0.05) << "bf16, mistake " << int(planted);
  }
}

TEST(TensorCores, ALaneThatSkipsAnInstructionIsFound) {
  const std::string why = failure_of([] { error_of<false>(Planted::late_lane); });
  EXPECT_NE(why.find("instruction of the warp"), std::string::npos) << why;
}

}  // namespace
}  // namespace lamina::kernels::cuda
