#include "runtime/core/shape.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/core/error.h"
#include "runtime/core/type.h"

namespace lamina {
namespace {

TEST(Dim, ComputesWithNumbersAndSymbols) {
  Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  EXPECT_EQ((n * 28).text(), "28*n");
  EXPECT_EQ(n * 28 / 28, n);
  EXPECT_EQ(n * m / n, m);
  EXPECT_EQ((n + m) * 2 - n - n, m + m);
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_EQ(Dim(6) / Dim(3), Dim(2));
  EXPECT_EQ((n + 3).text(), "3+n");
  EXPECT_NE(n, m);
}

TEST(Dim, TextReadsBack) {
  Dim n = Dim::symbol("n"), m = Dim::symbol("batch_2");
  for (Dim d : {Dim(0), Dim(784), n, n * 28, n * m + 3 * n + 7, n - 1, Dim::symbol("?slot")}) EXPECT_EQ(Dim::parse(d.text()), d) << d;
}

TEST(Dim, NegativeNumberIsRefused) {
  Dim::symbol("n");  // a negative code is that of an expression
  for (const int64_t bad : {int64_t{-1}, int64_t{-2}, std::numeric_limits<int64_t>::min()}) {
    try {
      const Shape shape{2, bad};
      ADD_FAILURE() << text(shape);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
      EXPECT_EQ(e.parts.what, cat("the dimension ", bad, " is negative"));
    }
  }
}

TEST(Dim, RefusesTextThatIsNoDimension) {
  for (const char* bad : {"", "n*", "+", "3x", "n++m", "*n", "n-", "99999999999999999999", "a b"})
    EXPECT_THROW(Dim::parse(bad), Error) << bad;
}

TEST(Dim, RefusesAQuotientWithARemainder) {
  EXPECT_THROW(Dim(7) / Dim(2), Error);
  EXPECT_THROW(Dim::symbol("n") / Dim(2), Error);
  EXPECT_THROW(Dim(7) / Dim(0), Error);
}

TEST(Dim, RefusesProductsBeyond63Bits) {
  EXPECT_THROW(Dim(int64_t(1) << 40) * Dim(int64_t(1) << 40), Error);
  EXPECT_THROW(size_of(Shape{int64_t(1) << 62, 4}), Error);
  EXPECT_EQ(size_of(Shape{int64_t(1) << 62, 4, 0}), Dim(0));
}

TEST(Dim, TextBeyondAllMemoryIsRefused) {
  EXPECT_EQ(Dim::parse("140737488355328"), Dim(kMostBytes));
  for (const char* bad : {"140737488355329", "9223372036854775807", "140737488355328*2", "140737488355328+1"})
    EXPECT_THROW(Dim::parse(bad), Error) << bad;
}

TEST(Dim, ArithmeticAtTheEndsOf64BitsIsChecked) {
  DimBindings bindings;
  EXPECT_FALSE(match(Dim::parse("n-9223372036854775807-1"), 5, bindings));
  EXPECT_THROW(Dim::parse("-9223372036854775807*n-n") / Dim::parse("-n"), Error);
}

TEST(Dim, LearnsASymbolFromALength) {
  DimBindings bindings;
  EXPECT_TRUE(match(Dim::symbol("n") * 2 + 1, 21, bindings));
  EXPECT_EQ(bindings.at("n"), 10);
  EXPECT_TRUE(match(Dim::symbol("n"), 10, bindings));
  EXPECT_FALSE(match(Dim::symbol("n"), 11, bindings));
  EXPECT_FALSE(match(Dim::symbol("m") * 2, 5, bindings));
  EXPECT_EQ(substitute(Dim::symbol("n") * Dim::symbol("k"), bindings), Dim::symbol("k") * 10);
}

TEST(Dim, WithANegativePartIsParsedAndBound) {
  Dim d = Dim::symbol("n") - 2;
  EXPECT_EQ(Dim::parse(d.text()), d);
  EXPECT_EQ(substitute(d, {{"n", 5}}), Dim(3));
  EXPECT_EQ(substitute(Dim::symbol("k") - Dim::symbol("n"), {{"n", 5}}), Dim::symbol("k") - 5);
  EXPECT_THROW(substitute(d, {{"n", 1}}), Error);
}

TEST(Dim, FreshSymbolsDiffer) { EXPECT_NE(Dim::fresh("n"), Dim::fresh("n")); }

TEST(Shape, BroadcastsAsNumPyDoes) {
  Dim n = Dim::symbol("n");
  EXPECT_EQ(broadcast({20, 64}, {64}), (Shape{20, 64}));
  EXPECT_EQ(broadcast({n, 1}, {1, 3}), (Shape{n, 3}));
  EXPECT_EQ(broadcast({}, {2}), (Shape{2}));
  EXPECT_EQ(broadcast({0, 3}, {1, 3}), (Shape{0, 3}));
  EXPECT_THROW(broadcast({2}, {3}), Error);
  EXPECT_THROW(broadcast({n}, {3}), Error);  // n is unknown
}

TEST(Shape, AxisErrorsSayWhatIsPossible) {
  EXPECT_EQ(normalize_axis("sum", -1, 2), 1);
  try {
    normalize_axis("softmax", 5, 2);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "softmax: axis 5 is out of range\n  where: argument 'axis'\n  why:   the input has 2 dimensions\n  fix:   pass an axis "
                 "from -2 to 1");
  }
}

TEST(TensorType, TextReadsBack) {
  for (DType d : kDTypes) {
    TensorType t{d, {2, Dim::symbol("n")}};
    EXPECT_EQ(parse_type(text(t)), t);
  }
  EXPECT_EQ(text(TensorType{DType::f32, {}}), "f32[]");
  for (const char* bad : {"f32", "f32[", "f33[2]", "f32[2", ""}) EXPECT_THROW(parse_type(bad), Error) << bad;
}

}  // namespace
}  // namespace lamina
