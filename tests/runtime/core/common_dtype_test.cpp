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
int kind(DType d) { return d == DType::boolean ? 0 : is_integer(d) ? 1 : 2; }

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
    EXPECT_EQ(of(Mixing::fractions, of_tensor(DType::boolean), of_tensor(d)), is_floating(d) ? d : DType::f32);
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
        EXPECT_EQ(got.has_value(), kind(a) == kind(b)) << a << " and " << b;
        EXPECT_EQ(got.value_or(a), a);
        EXPECT_EQ(of(mixing, array(b), of_tensor(a)), got);
      }
  EXPECT_EQ(of(Mixing::strict, array(DType::f32), array(DType::f64)), DType::f64);
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
