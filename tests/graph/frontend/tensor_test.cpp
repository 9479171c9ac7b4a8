#include "graph/frontend/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "graph/frontend/device.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"

namespace lamina {
namespace {

TEST(TensorText, AScalarIsPrintedAlone) {
  EXPECT_EQ(scalar_i(12).str(), "lm.Tensor(12, shape=(), dtype=int32)");
  EXPECT_EQ(scalar(1).str(), "lm.Tensor(1.0, shape=(), dtype=float32)");
  EXPECT_EQ(scalar(0.1).str(), "lm.Tensor(0.1, shape=(), dtype=float32)");
  EXPECT_EQ(scalar(0.1, dtype::f16).str(), "lm.Tensor(0.1, shape=(), dtype=float16)");
  EXPECT_EQ(scalar(1e-5, dtype::f64).str(), "lm.Tensor(1e-05, shape=(), dtype=float64)");
  EXPECT_EQ(scalar(-0.0).str(), "lm.Tensor(-0.0, shape=(), dtype=float32)");
  EXPECT_EQ(scalar_b(true).str(), "lm.Tensor(True, shape=(), dtype=bool)");
}

TEST(TensorText, ColumnsAreAlignedAsInNumPy) {
  EXPECT_EQ(tensor({1, 2}, {1, 2}).str(), "lm.Tensor([[1. 2.]], shape=(1, 2), dtype=float32)");
  EXPECT_EQ(tensor({1, 1, 1}, {3}).str(), "lm.Tensor([1. 1. 1.], shape=(3,), dtype=float32)");
  EXPECT_EQ(tensor({22, 22, 23, 13}, {2, 2}).values_text(), "[[22. 22.]\n [23. 13.]]");
  EXPECT_EQ(tensor({4, 1, 10}, {3}, dtype::i32).values_text(), "[ 4  1 10]");
  EXPECT_EQ(tensor({1, 0}, {2}, dtype::boolean).values_text(), "[ True False]");
  EXPECT_EQ(tensor({1, 2.5, NAN, INFINITY}, {4}).values_text(), "[1.  2.5 nan inf]");
  EXPECT_EQ(tensor({1e8, 1.5}, {2}).values_text(), "[1.0e+08 1.5e+00]");
  EXPECT_EQ(zeros({0, 3}).values_text(), "[]");
}

TEST(TensorText, LongArraysAreSummarised) {
  EXPECT_EQ(arange(1500).values_text(), "[   0    1    2 ... 1497 1498 1499]");
  EXPECT_EQ(ones({2, 600}, dtype::i32).values_text(), "[[1 1 1 ... 1 1 1]\n [1 1 1 ... 1 1 1]]");
}

TEST(TensorText, LongLinesAreBroken) {
  std::string text = arange(40).values_text();
  EXPECT_EQ(text,
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]");
}

TEST(Tensor, ConvertsItsElements) {
  EXPECT_EQ(tensor({1, 2.75}, {2}).to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(scalar_i(7).item<double>(), 7.0);
  EXPECT_EQ(tensor({1.5, -2}, {2}, dtype::bf16).to_vector<float>(), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(tensor({0, 3}, {2}, dtype::i8).to_vector<bool>(), (std::vector<bool>{false, true}));
  EXPECT_EQ(scalar_i(int64_t{1} << 60, dtype::i64).item<int64_t>(), int64_t{1} << 60);
}

TEST(Tensor, ElementsAreConvertedAsAstypeDoes) {
  const Tensor x = tensor({NAN, INFINITY, -INFINITY, 3e9, -2.7, 0.5, 300}, {7});
  EXPECT_EQ(x.to_vector<int>(), astype(x, dtype::i32).to_vector<int>());
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{0, INT32_MAX, INT32_MIN, INT32_MAX, -2, 0, 300}));
  EXPECT_EQ(x.to_vector<uint8_t>(), astype(x, dtype::u8).to_vector<uint8_t>());
  EXPECT_EQ(x.to_vector<bool>(), astype(x, dtype::boolean).to_vector<bool>());
  EXPECT_EQ(scalar(NAN).item<int64_t>(), 0);
  EXPECT_EQ(scalar(1e30, dtype::bf16).item<int64_t>(), INT64_MAX);
}

TEST(Tensor, FactoriesRefuseWhatADtypeDoesNotHold) {
  const auto refused = [](ErrorKind kind, const std::function<void()>& f) {
    try {
      f();
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, kind) << e.what();
      EXPECT_EQ(e.parts.where.substr(0, 16), "tensor_test.cpp:") << e.what();
    }
  };
  using enum ErrorKind;
  refused(invalid_argument, [] { scalar_i(int64_t{1} << 40); });
  refused(invalid_argument, [] { scalar_i(-1, dtype::u8); });
  refused(invalid_argument, [] { scalar_i(-1, dtype::u64); });
  refused(type, [] { scalar(2.5, dtype::i32); });
  refused(type, [] { scalar(NAN, dtype::i64); });
  refused(invalid_argument, [] { scalar(9223372036854775808.0, dtype::i64); });
  refused(invalid_argument, [] { full({2}, 1e20, dtype::i32); });
  refused(invalid_argument, [] { full({2}, INFINITY, dtype::u32); });
  refused(invalid_argument, [] { tensor({1, 300}, {2}, dtype::u8); });
  refused(type, [] { tensor({1, 2.5}, {2}, dtype::i16); });
  refused(invalid_argument, [] { tensor({1, 2, 3}, {2}); });
  refused(invalid_argument, [] { tensor(std::vector<float>{1, 2, 3}, {2, 2}); });
  refused(invalid_argument, [] { tensor_from(nullptr, 3, {DType::f32, {3}}); });
  refused(invalid_argument, [] { constant(nullptr, {DType::f32, {3}}); });
  refused(invalid_argument, [] { arange(0, 1, 0, dtype::f32); });
  refused(invalid_argument, [] { arange(0, 300, 1, dtype::u8); });
  EXPECT_EQ(scalar(-9223372036854775808.0, dtype::i64).item<int64_t>(), INT64_MIN);
  EXPECT_EQ(tensor({255, 0}, {2}, dtype::u8).to_vector<int>(), (std::vector<int>{255, 0}));
  EXPECT_EQ(tensor_from(nullptr, 0, {DType::f32, {0}}).size(), 0);
  EXPECT_THROW(ones({2}).copy_to_host(nullptr, 8), Error);
}

TEST(Tensor, VectorsOfBoolsAndRangesOfAnyNumbersAreTaken) {
  EXPECT_EQ(tensor(std::vector<bool>{true, false, true}).to_vector<int>(), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(arange(0, 3, 1, dtype::f32).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(arange(0, 1, 0.25, dtype::f64).to_vector<double>(), (std::vector<double>{0, 0.25, 0.5, 0.75}));
}

TEST(Tensor, ItemRefusesSeveralElements) {
  try {
    ones({2, 3}).item<float>();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("6 elements"), std::string::npos) << e.what();
  }
}

TEST(Tensor, AnUndefinedOneIsAnError) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_THROW(Tensor().shape(), Error);
  EXPECT_THROW(Tensor() + 1, Error);
}

TEST(Tensor, ASymbolicOneHasANameAndNoValue) {
  std::vector<std::string> seen;
  auto f = function(
      [&](Tensor x) {
        Tensor y = matmul(tensor({10, 10, 11, 1}, {2, 2}), tensor({1, 0, 0, 1}, {2, 2})) + x, z = y + y;
        for (const Tensor& t : {x, y, z}) seen.push_back(t.str());
        EXPECT_THROW(y.item<float>(), Error);
        EXPECT_THROW(y.data(), Error);
        EXPECT_THROW(y.values_text(), Error);
        EXPECT_FALSE(executing_eagerly());
        return y;
      },
      {{{}, dtype::f32, "x"}});
  f(scalar(12));
  EXPECT_TRUE(executing_eagerly());
  EXPECT_EQ(seen, (std::vector<std::string>{"lm.Tensor(\"input:0\", shape=(), dtype=float32)",
                                            "lm.Tensor(\"add:0\", shape=(2, 2), dtype=float32)",
                                            "lm.Tensor(\"add_1:0\", shape=(2, 2), dtype=float32)"}));
}

TEST(Tensor, NameScopesPrefixNames) {
  std::string name;
  auto f = function([&](Tensor x) {
    NameScope outer("net");
    NameScope inner("layer1");
    Tensor y = relu(x);
    name = y.str();
    return y;
  });
  f(scalar(1));
  EXPECT_EQ(name, "lm.Tensor(\"net/layer1/relu:0\", shape=(), dtype=float32)");
}

TEST(Operand, NumbersAreWeak) {
  EXPECT_EQ((scalar_i(2) - 1).dtype(), dtype::i32);
  EXPECT_EQ((scalar(2) - 1).dtype(), dtype::f32);
  EXPECT_EQ((1 - scalar_i(2)).item<int>(), -1);
  EXPECT_EQ((scalar(2, dtype::f64) * 1.5).dtype(), dtype::f64);
  EXPECT_EQ((scalar(2, dtype::f16) * 2).dtype(), dtype::f16);
  EXPECT_TRUE((scalar(2) <= 2).item<bool>());
  EXPECT_EQ((scalar_b(true) == true).dtype(), dtype::boolean);
  EXPECT_EQ(maximum(1, 2.5).dtype(), dtype::f32);
}

void expect_refused(const std::function<void()>& op, const std::string& fix) {
  try {
    op();
    ADD_FAILURE() << "not refused; wanted: " << fix;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::type) << e.what();
    EXPECT_NE(std::string(e.what()).find(fix), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("tensor_test.cpp:"), std::string::npos) << e.what();
  }
}

TEST(Operand, UnsignedNumbersBeyondInt64AreThemselves) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ((zeros({2}, dtype::u64) + most).to_vector<uint64_t>(), (std::vector<uint64_t>{most, most}));
  EXPECT_EQ((Operand(most).resolve()).item<uint64_t>(), most);
  EXPECT_THROW(ones({2}, dtype::i32) + most, Error);
  EXPECT_EQ((ones({2}, dtype::i64) + uint64_t{5}).to_vector<int>(), (std::vector<int>{6, 6}));
}

TEST(Operand, AnEmptyTensorIsNamedWithOpAndLine) {
  const Tensor x = ones({2}), none;
  const std::vector<std::pair<const char*, std::function<void()>>> cases = {{"add: ", [&] { x + none; }},
                                                                            {"add: ", [&] { none + x; }},
                                                                            {"mul: ", [&] { none * 2; }},
                                                                            {"matmul: ", [&] { matmul(x, none); }},
                                                                            {"where: ", [&] { where(x > 0, none, x); }},
                                                                            {"", [&] { sum(none); }},
                                                                            {"", [&] { exp(none); }},
                                                                            {"assign: ", [&] { Variable(x).assign(none); }}};
  for (const auto& [op, f] : cases) {
    try {
      f();
      ADD_FAILURE() << op;
    } catch (const Error& e) {
      EXPECT_EQ(e.parts.what, cat(op, "this Tensor is empty"));
      EXPECT_EQ(e.parts.where.substr(0, 16), "tensor_test.cpp:") << e.what();
    }
  }
}

TEST(Operand, RefusesLossyConversions) {
  expect_refused([] { scalar_i(2) * 1.5; }, "lm.astype(x, lm.float32)");
  expect_refused([] { scalar_i(2) + scalar(2); }, "lm.astype(x, lm.float64)");
  expect_refused([] { where(scalar_b(true), scalar_b(true), 1); }, "lm.astype(x, lm.int32)");
  expect_refused([] { scalar(1) == true; }, "lm.astype(x, lm.bool)");
  expect_refused([] { scalar_i(1) + (int64_t{1} << 40); }, "lm.astype(x, lm.int64)");
}

TEST(Operand, BoolsCountInArithmeticAndFractionsAreFloating) {
  const Tensor x = tensor({1, -2, 3}, {3});
  EXPECT_EQ((x * (x > 0)).to_vector<float>(), (std::vector<float>{1, 0, 3}));
  EXPECT_EQ((scalar_b(true) + 1).dtype(), dtype::i32);
  EXPECT_EQ((scalar(1) + true).item<float>(), 2);
  EXPECT_EQ((scalar_i(1) / scalar_i(2)).item<float>(), 0.5F);
  EXPECT_EQ((1 / scalar_i(4)).dtype(), dtype::f32);
  EXPECT_EQ(sqrt(2).dtype(), dtype::f32);
  EXPECT_FLOAT_EQ(mean(x > 0).item<float>(), 2.0F / 3);
  EXPECT_EQ(var(scalar_i(3)).dtype(), dtype::f32);
  EXPECT_EQ(softmax(tensor(std::vector<int64_t>{1, 1})).to_vector<float>(), (std::vector<float>{0.5F, 0.5F}));
}

TEST(Operand, AnArrayTakesTheDtypeOfATensorOfItsKind) {
  const Tensor array = ones({2}, dtype::f64).with(Strength::array), integers = tensor(std::vector<int64_t>{1, 300}).with(Strength::array);
  EXPECT_EQ((ones({2}) + array).dtype(), dtype::f32);
  EXPECT_EQ((array + 1).dtype(), dtype::f64);
  EXPECT_EQ((ones({2}, dtype::i16) + integers).dtype(), dtype::i16);
  expect_refused([&] { ones({2}, dtype::u8) + integers; }, "lm.astype(x, lm.int64)");
  expect_refused([&] { ones({2}) + integers; }, "lm.astype(x, lm.float64)");
}

TEST(Device, TensorsLieOnTheScopesDevice) {
  EXPECT_EQ(device_of(ones({2})), default_device() == Device{} ? "cpu:0" : text(default_device()));
  with_device("cpu:0", [] { EXPECT_EQ(device_of(ones({2}) + 1), "cpu:0"); });
  EXPECT_THROW(DeviceScope("cpu:77"), Error);
  EXPECT_THROW(DeviceScope("tpu:0"), Error);
  EXPECT_EQ(list_devices("cpu").front(), "cpu:0");
  EXPECT_EQ(cuda::is_available(), cuda::why_unavailable().empty());
}

TEST(Tensor, GivesComplexNumbersAsSuch) {
  using Complex = std::complex<double>;
  const Tensor x = tensor({1, -2, 0}, {3});
  for (const DType dtype : {DType::c64, DType::c128}) {
    const Tensor z = astype(x, dtype);
    EXPECT_EQ(z.to_vector<Complex>(), (std::vector<Complex>{1, -2, 0}));
    EXPECT_EQ(z.to_vector<std::complex<float>>(), (std::vector<std::complex<float>>{1, -2, 0}));
    const Tensor root = sqrt(astype(scalar(-4), dtype));
    EXPECT_NEAR(std::abs(root.item<Complex>() - Complex(0, 2)), 0, 1e-6);
    EXPECT_THROW(z.to_vector<double>(), Error);
  }
  EXPECT_EQ(tensor({1, 2}, {2}, dtype::i32).to_vector<Complex>(), (std::vector<Complex>{1, 2}));
}

TEST(DType, OfNoNameIsRefusedWhereverATensorIsMade) {
  for (const int number : {15, 77, 255}) {
    const auto none = static_cast<DType>(number);
    for (const std::function<void()>& make : std::vector<std::function<void()>>{
             [&] { zeros({2}, none); }, [&] { ones({2}, none); }, [&] { full({2}, 1, none); }, [&] { tensor({1, 2}, {2}, none); },
             [&] { scalar(1, none); }, [&] { scalar_i(1, none); }, [&] { astype(ones({2}), none); }, [&] { Variable(zeros({2}, none)); },
             [&] { function([&](Tensor x) { return astype(x, none); })(ones({2})); }})
      EXPECT_THROW(make(), Error) << number;
    EXPECT_EQ(cat(none), "no dtype");
  }
}

}  // namespace
}  // namespace lamina
