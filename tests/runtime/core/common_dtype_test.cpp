#include "runtime/core/common_dtype.h"

#include <array>

#include <gtest/gtest.h>

namespace lamina {
namespace {

using Strength = OperandDType::Strength;
constexpr OperandDType of_tensor(DType d) { return {Strength::tensor, d}; }
constexpr OperandDType array(DType d) { return {Strength::array, d}; }
constexpr OperandDType number(DType d) { return {Strength::number, d}; }
std::optional<DType> of(Mixing mixing, OperandDType a, OperandDType b) { return operation_dtype(mixing, std::array{a, b}); }
int kind(DType d) { return d == DType::boolean ? 0 : is_integer(d) ? 1 : is_floating(d) ? 2 : 3; }

TEST(CommonDtype, TensorsOfTwoNumericDtypesDoNotMix) {
  for (const Mixing mixing : {Mixing::strict, Mixing::numbers, Mixing::fractions})
    for (const DType a : kDTypes)
      for (const DType b : kDTypes) {
        const bool masks = mixing != Mixing::strict && (a == DType::boolean || b == DType::boolean);
        EXPECT_EQ(of(mixing, of_tensor(a), of_tensor(b)).has_value(), a == b || masks) << a << " and " << b;
        EXPECT_EQ(of(mixing, of_tensor(a), of_tensor(b)), of(mixing, of_tensor(b), of_tensor(a)));
      }
}

TEST(CommonDtype, BoolTakesTheNumbersDtypeInArithmetic) {
  for (const DType d : kDTypes) {
    EXPECT_EQ(of(Mixing::numbers, of_tensor(DType::boolean), of_tensor(d)), d);
    EXPECT_EQ(of(Mixing::fractions, of_tensor(DType::boolean), of_tensor(d)), is_floating(d) || is_complex(d) ? d : DType::f32);
  }
  EXPECT_EQ(of(Mixing::numbers, of_tensor(DType::boolean), number(DType::i32)), DType::i32);
  EXPECT_EQ(of(Mixing::numbers, of_tensor(DType::boolean), number(DType::f32)), DType::f32);
  EXPECT_FALSE(of(Mixing::strict, of_tensor(DType::boolean), number(DType::i32)));
}

TEST(CommonDtype, ArrayTakesTheDtypeOfATensorOfItsKind) {
  for (const Mixing mixing : {Mixing::strict, Mixing::numbers})
    for (const DType a : kDTypes)
      for (const DType b : kDTypes) {
        if (mixing == Mixing::numbers && kind(a) * kind(b) == 0) continue;
        const std::optional<DType> got = of(mixing, of_tensor(a), array(b));
        EXPECT_EQ(got.has_value(), kind(a) == kind(b) || kind(a) + kind(b) == 5) << a << " and " << b;
        EXPECT_EQ(got.value_or(a), kind(a) == 2 && kind(b) == 3 ? complex_of(a) : a);  // a complex array beside a real tensor
        EXPECT_EQ(of(mixing, array(b), of_tensor(a)), got);
      }
  EXPECT_EQ(of(Mixing::strict, array(DType::f32), array(DType::f64)), DType::f64);
}

TEST(CommonDtype, HoldsTheNumbersOfBoth) {
  EXPECT_EQ(common_dtype(DType::u16, DType::i16), DType::i32);
  EXPECT_EQ(common_dtype(DType::i64, DType::u8), DType::i64);
  EXPECT_EQ(common_dtype(DType::u32, DType::i8), DType::i64);
  EXPECT_EQ(common_dtype(DType::u64, DType::i8), DType::f64);
  EXPECT_EQ(common_dtype(DType::u16, DType::u64), DType::u64);
  EXPECT_EQ(common_dtype(DType::u16, DType::f32), DType::f32);
  EXPECT_EQ(common_dtype(DType::u32, DType::f32), DType::f64);
  EXPECT_EQ(common_dtype(DType::f64, DType::c64), DType::c128);
  EXPECT_EQ(common_dtype(DType::f16, DType::c64), DType::c64);
  EXPECT_EQ(common_dtype(DType::i16, DType::c64), DType::c64);
  EXPECT_EQ(common_dtype(DType::c64, DType::c128), DType::c128);
}

TEST(CommonDtype, NumbersFollowTensorsAndFractionsAreFloating) {
  EXPECT_EQ(of(Mixing::numbers, of_tensor(DType::i8), number(DType::i64)), DType::i8);
  EXPECT_EQ(of(Mixing::numbers, of_tensor(DType::f16), number(DType::i32)), DType::f16);
  EXPECT_FALSE(of(Mixing::numbers, of_tensor(DType::i8), number(DType::f32)));
  EXPECT_EQ(of(Mixing::fractions, of_tensor(DType::i8), number(DType::f32)), DType::f32);
  EXPECT_EQ(of(Mixing::fractions, number(DType::i32), number(DType::i32)), DType::f32);
  EXPECT_EQ(of(Mixing::numbers, number(DType::i32), number(DType::f32)), DType::f32);
}

}  // namespace
}  // namespace lamina
