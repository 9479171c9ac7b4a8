#include "runtime/core/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lamina {
namespace {

TEST(Half, EveryValueConvertsToFloatAndBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    float f = f16_value(uint16_t(bits)), b = bf16_value(uint16_t(bits));
    if (!std::isnan(f)) {
      EXPECT_EQ(f16_bits(f), bits);
    } else {
      EXPECT_TRUE(std::isnan(f16_value(f16_bits(f))));
    }
    if (!std::isnan(b)) {
      EXPECT_EQ(bf16_bits(b), bits);
    } else {
      EXPECT_TRUE(std::isnan(bf16_value(bf16_bits(b))));
    }
  }
}

// Between two neighbours the nearer wins; ties go to even.
TEST(Half, RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    double low = f16_value(uint16_t(bits)), high = f16_value(uint16_t(bits + 1)), middle = (low + high) / 2;
    EXPECT_EQ(f16_bits(float(middle)), bits + (bits & 1)) << bits;
    EXPECT_EQ(f16_bits(std::nextafter(float(middle), 0.0f)), bits) << bits;
    EXPECT_EQ(f16_bits(std::nextafter(float(middle), 1e9f)), bits + 1) << bits;
  }
}

TEST(Half, OverflowsToInfinity) {
  EXPECT_EQ(f16_bits(65519.0f), 0x7bff);
  EXPECT_EQ(f16_bits(65520.0f), 0x7c00);
  EXPECT_EQ(f16_bits(-1e30f), 0xfc00);
  EXPECT_EQ(bf16_bits(3.4e38f), 0x7f80);
  EXPECT_EQ(f16_bits(1e-30f), 0);
  EXPECT_EQ(f16_bits(-1e-30f), 0x8000);
}

}  // namespace
}  // namespace lamina
