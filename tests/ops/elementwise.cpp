// The elementwise ops: a row each, in several shapes and all dtypes, against double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using Scalar = double (*)(double, double, double);

// NumPy's broadcasting, one element at a time.
std::vector<double> apply(const std::vector<Tensor>& in, Scalar f) {
  Shape shape;
  for (const Tensor& t : in) shape = broadcast(shape, t.type.shape);
  const std::vector<int64_t> full = numbers(shape);
  std::vector<double> out;
  std::vector<int64_t> index(full.size());
  for (int64_t left = size_of(shape).number(); left > 0; --left) {
    double x[3] = {};
    for (size_t i = 0; i < in.size(); ++i) {
      const std::vector<int64_t> own = numbers(in[i].type.shape);
      int64_t at = 0;
      for (size_t a = 0; a < own.size(); ++a) at = at * own[a] + (own[a] == 1 ? 0 : index[a + full.size() - own.size()]);
      x[i] = in[i].at(at);
    }
    out.push_back(f(x[0], x[1], x[2]));
    for (size_t a = full.size(); a-- > 0 && ++index[a] == full[a];) index[a] = 0;
  }
  return out;
}

// What an op's operands are drawn from.
struct Row {
  const char* op;
  int operands;
  Scalar f;
  const std::vector<DType>& dtypes;
  double low = -2, high = 2;    // of the first operand
  double low2 = -2, high2 = 2;  // of the others
  double ulps = 0.51;           // one rounding, unless said otherwise
  double of_largest = 0;        // of differences, which may cancel
};

std::vector<OpCase> cases_of(const Row& row) {
  const std::vector<std::vector<Shape>> shapes[] = {
      {},
      {{{7}}, {{}}, {{0}}, {{2, 3, 4}}, {{1, 1}}},
      {{{5, 6}, {5, 6}},
       {{}, {}},
       {{0, 3}, {3}},
       {{4, 5}, {5}},
       {{4, 1}, {4, 5}},
       {{3, 4}, {}},
       {{}, {3}},
       {{2, 1, 3}, {4, 1}},
       {{1}, {1, 1}},
       {{2, 3, 2}, {2, 1, 1}}},
      {{{4, 5}, {4, 5}, {4, 5}}, {{4, 1}, {5}, {}}, {{}, {2}, {2}}, {{2}, {}, {}}, {{0}, {0}, {}}},
  };
  const std::vector<Shape> large[] = {{}, {{300, 700}}, {{300, 700}, {700}}, {{300, 1}, {300, 700}, {700}}};
  std::vector<OpCase> cases;
  auto add = [&](const std::vector<Shape>& s, bool is_large) {
    OpCase c;
    for (size_t i = 0; i < s.size(); ++i) {
      c.name += cat(i ? " " : "", "[", text(s[i]), "]");
      c.in.push_back({f32(s[i]), i == 0 ? row.low : row.low2, i == 0 ? row.high : row.high2});
    }
    if (row.op == std::string("where")) c.in[0].type.dtype = DType::boolean;
    c.reference = [f = row.f](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{apply(in, f)}; };
    c.dtypes = is_large ? std::vector<DType>{row.dtypes[0]} : row.dtypes;
    c.ulps = row.ulps, c.of_largest = row.of_largest;
    if (is_large) c.no_differences = "the smaller cases show it";
    cases.push_back(std::move(c));
  };
  for (const std::vector<Shape>& s : shapes[row.operands]) add(s, false);
  add(large[row.operands], true);  // enough for several threads
  return cases;
}

const std::vector<DType> kAny{DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8,
                              DType::i8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
const std::vector<DType> kBool{DType::boolean};
const std::vector<DType> kBits{DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::boolean};
const std::vector<DType> kSignedIntegers{DType::i8, DType::i16, DType::i32, DType::i64};
const std::vector<DType> kSigned{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64};

double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}
double gelu_tanh_slope(double x) {
  const double k = 1.5957691216057308, s = 1 / (1 + std::exp(-k * (x + 0.044715 * x * x * x)));
  return s + x * s * (1 - s) * k * (1 + 3 * 0.044715 * x * x);
}

// Half an ulp is one rounding; the polynomials are held to 2 and the gradients to the roundings of their formula.
#define F [](double a, [[maybe_unused]] double b, [[maybe_unused]] double c) -> double
// clang-format off
const Row kRows[] = {
    {"abs", 1, F { return std::abs(a); }, kNumeric},
    {"acos", 1, F { return std::acos(a); }, kFloating, -0.95, 0.95},
    {"acosh", 1, F { return std::acosh(a); }, kFloating, 1.1, 9},
    {"add", 2, F { return a + b; }, kNumeric, 0, 50, 0, 50},
    {"asin", 1, F { return std::asin(a); }, kFloating, -0.95, 0.95},
    {"asinh", 1, F { return std::asinh(a); }, kFloating, -9, 9},
    {"atan", 1, F { return std::atan(a); }, kFloating, -9, 9},
    {"atan2", 2, F { return std::atan2(a, b); }, kFloating},
    {"atanh", 1, F { return std::atanh(a); }, kFloating, -0.95, 0.95},
    {"bitwise_and", 2, F { return double(int64_t(a) & int64_t(b)); }, kBits, -99, 99, -99, 99},
    {"bitwise_not", 1, F { return double(~int64_t(a)); }, kSignedIntegers, -99, 99},
    {"bitwise_or", 2, F { return double(int64_t(a) | int64_t(b)); }, kBits, -99, 99, -99, 99},
    {"bitwise_xor", 2, F { return double(int64_t(a) ^ int64_t(b)); }, kBits, -99, 99, -99, 99},
    {"cbrt", 1, F { return std::cbrt(a); }, kFloating, 0.2, 9},
    {"ceil", 1, F { return std::ceil(a); }, kNumeric, -60, 60},
    {"clip", 3, F { return std::min(std::max(a, b), c); }, kNumeric, -20, 20, -15, 15},
    {"cos", 1, F { return std::cos(a); }, kFloating, -10, 10, 0, 0, 1},
    {"cosh", 1, F { return std::cosh(a); }, kFloating, -4, 4},
    {"div", 2, F { return a / b; }, kFloating, -2, 2, 0.5, 3},
    {"elu", 2, F { return a > 0 ? a : b * std::expm1(a); }, kFloating, -3, 3, -2, 2, 3},
    {"elu_grad", 3, F { return b > 0 ? a : a * c * std::exp(b); }, kFloating, -2, 2, 0.1, 2, 3},
    {"equal", 2, F { return a == b; }, kAny, 0, 2, 0, 2},
    {"erf", 1, F { return std::erf(a); }, kFloating, -3, 3},
    {"erfc", 1, F { return std::erfc(a); }, kFloating, -3, 5},
    {"exp", 1, F { return std::exp(a); }, kFloating, -8, 8, 0, 0, 1.5},
    {"exp2", 1, F { return std::exp2(a); }, kFloating, -9, 9},
    {"expm1", 1, F { return std::expm1(a); }, kFloating, -4, 4},
    {"floor", 1, F { return std::floor(a); }, kNumeric, -60, 60},
    {"floor_divide", 2, F { return std::floor(a / b); }, kNumeric, -60, 60, 1, 7},
    {"fmod", 2, F { return std::fmod(a, b); }, kNumeric, -60, 60, 1, 7},
    {"gelu", 1, F { return 0.5 * a * std::erfc(-a * M_SQRT1_2); }, kFloating, -6, 4, 0, 0, 8},
    {"gelu_grad", 2, F { return a * (0.5 * std::erfc(-b * M_SQRT1_2) + b * std::exp(-0.5 * b * b) * 0.3989422804014327); }, kFloating,
     -2, 2, -4, 4, 8, 0.5},
    {"gelu_tanh", 1, F { return a / (1 + std::exp(-1.5957691216057308 * (a + 0.044715 * a * a * a))); }, kFloating, -3, 3, 0, 0, 16},
    {"gelu_tanh_grad", 2, F { return a * gelu_tanh_slope(b); }, kFloating, -2, 2, -3, 3, 8, 0.5},
    {"greater", 2, F { return a > b; }, kAny, 0, 2, 0, 2},
    {"greater_equal", 2, F { return a >= b; }, kAny, 0, 2, 0, 2},
    {"isfinite", 1, F { return std::isfinite(a); }, kNumeric},
    {"isinf", 1, F { return std::isinf(a); }, kNumeric},
    {"isnan", 1, F { return std::isnan(a); }, kNumeric},
    {"leaky_relu", 2, F { return a > 0 ? a : b * a; }, kFloating},
    {"leaky_relu_grad", 3, F { return b > 0 ? a : c * a; }, kFloating},
    {"less", 2, F { return a < b; }, kAny, 0, 2, 0, 2},
    {"less_equal", 2, F { return a <= b; }, kAny, 0, 2, 0, 2},
    {"log", 1, F { return std::log(a); }, kFloating, 0.1, 8, 0, 0, 1.5},
    {"log10", 1, F { return std::log10(a); }, kFloating, 0.1, 8},
    {"log1p", 1, F { return std::log1p(a); }, kFloating, -0.9, 8},
    {"log2", 1, F { return std::log2(a); }, kFloating, 0.1, 8},
    {"logaddexp", 2, F { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); }, kFloating, -4, 4, -4, 4, 3, 0.5},
    {"logical_and", 2, F { return a != 0 && b != 0; }, kBool},
    {"logical_not", 1, F { return a == 0; }, kBool},
    {"logical_or", 2, F { return a != 0 || b != 0; }, kBool},
    {"logical_xor", 2, F { return (a != 0) != (b != 0); }, kBool},
    {"maximum", 2, F { return std::max(a, b); }, kNumeric, -20, 20, -20, 20},
    {"minimum", 2, F { return std::min(a, b); }, kNumeric, -20, 20, -20, 20},
    {"mod", 2, F { return std::fmod(std::fmod(a, b) + b, b); }, kNumeric, -60, 60, 1, 7, 4},
    {"mul", 2, F { return a * b; }, kNumeric, -8, 8, -8, 8},
    {"neg", 1, F { return -a; }, kSigned},
    {"not_equal", 2, F { return a != b; }, kAny, 0, 2, 0, 2},
    {"pow", 2, F { return std::pow(a, b); }, kNumeric, 0.3, 3, 0.3, 3, 1},
    {"reciprocal", 1, F { return 1 / a; }, kFloating, 0.3, 8},
    {"relu", 1, F { return std::max(a, 0.0); }, kNumeric},
    {"relu_grad", 2, F { return b > 0 ? a : 0; }, kNumeric},
    {"round", 1, F { return std::nearbyint(a); }, kNumeric, -60, 60},
    {"rsqrt", 1, F { return 1 / std::sqrt(a); }, kFloating, 0.1, 5, 0, 0, 1.5},
    {"shift_left", 2, F { return a * std::exp2(b); }, kIntegers, -3, 3, 0, 4},
    {"shift_right", 2, F { return std::floor(a / std::exp2(b)); }, kIntegers, -99, 99, 0, 9},
    {"sigmoid", 1, F { return 1 / (1 + std::exp(-a)); }, kFloating, -8, 8, 0, 0, 2},
    {"sigmoid_grad", 2, F { return a * b * (1 - b); }, kFloating, -2, 2, 0.1, 0.9, 4},
    {"sign", 1, F { return double(a > 0) - double(a < 0); }, kNumeric},
    {"silu", 1, F { return a / (1 + std::exp(-a)); }, kFloating, -8, 8, 0, 0, 4},
    {"silu_grad", 2, F { return a * silu_slope(b); }, kFloating, -2, 2, -6, 6, 8, 0.5},
    {"sin", 1, F { return std::sin(a); }, kFloating, -10, 10, 0, 0, 1},
    {"sinh", 1, F { return std::sinh(a); }, kFloating, -4, 4},
    {"softplus", 1, F { return std::log1p(std::exp(a)); }, kFloating, -8, 8, 0, 0, 3},
    {"softplus_grad", 2, F { return -a * std::expm1(-b); }, kFloating, -2, 2, 0.01, 3, 3},
    {"sqrt", 1, F { return std::sqrt(a); }, kFloating, 0.1, 5},
    {"square", 1, F { return a * a; }, kNumeric, -8, 8},
    {"sub", 2, F { return a - b; }, kNumeric, 50, 100, 0, 50},
    {"tan", 1, F { return std::tan(a); }, kFloating, -1.4, 1.4, 0, 0, 1},
    {"tanh", 1, F { return std::tanh(a); }, kFloating, -4, 4, 0, 0, 2},
    {"tanh_grad", 2, F { return a * (1 - b * b); }, kFloating, -2, 2, -0.8, 0.8, 4},
    {"trunc", 1, F { return std::trunc(a); }, kNumeric, -60, 60},
    {"where", 3, F { return a != 0 ? b : c; }, kAny, 0, 1, -2, 2},
};
// clang-format on
#undef F

const std::vector<OpCases>& registered() {
  static const std::vector<OpCases> cases = [] {
    std::vector<OpCases> all;
    for (const Row& row : kRows) all.emplace_back(row.op, [&row] { return cases_of(row); });
    return all;
  }();
  return cases;
}
[[maybe_unused]] const auto& kRegistered = registered();

// --- what the rows do not show ---

template <class T>
std::vector<T> run(const ir::OpDef& op, const std::vector<std::vector<T>>& in) {
  ir::Graph g;
  std::vector<Tensor> x;
  for (const std::vector<T>& values : in) {
    x.push_back(Tensor::of<T>({int64_t(values.size())}, values));
    g.add_input(x.back().type);
  }
  g.outputs = {g.add(op, g.inputs)};
  const Tensor y = evaluate(g, x)[0];
  return {y.data<T>(), y.data<T>() + y.size()};
}
void expect_same(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i]))
        << "element " << i << ": " << got[i] << " instead of " << want[i];
  }
}
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(Elementwise, IntegersWrap) {
  EXPECT_EQ(run<int8_t>(ops::def::add, {{127, -128}, {1, -1}}), (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(run<uint8_t>(ops::def::sub, {{3}, {4}}), (std::vector<uint8_t>{255}));
  EXPECT_EQ(run<uint8_t>(ops::def::neg, {{3, 0}}), (std::vector<uint8_t>{253, 0}));
  EXPECT_EQ(run<int16_t>(ops::def::mul, {{300, -32768}, {300, -1}}), (std::vector<int16_t>{24464, -32768}));
  const int32_t low32 = std::numeric_limits<int32_t>::min();
  const int64_t low64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(run<int32_t>(ops::def::abs, {{low32, -5}}), (std::vector<int32_t>{low32, 5}));
  EXPECT_EQ(run<int64_t>(ops::def::neg, {{low64}}), (std::vector<int64_t>{low64}));
  EXPECT_EQ(run<int64_t>(ops::def::square, {{int64_t(1) << 32}}), (std::vector<int64_t>{0}));
}

TEST(Elementwise, IntegerDivisionRoundsDownAndNeverTraps) {
  const int32_t low = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(run<int32_t>(ops::def::floor_divide, {{7, -7, 7, -7, 6, 5, low, 0}, {2, 2, -2, -2, -3, 0, -1, 0}}),
            (std::vector<int32_t>{3, -4, -4, 3, -2, 0, low, 0}));
  EXPECT_EQ(run<int32_t>(ops::def::mod, {{7, -7, 7, -7, 6, 5, low, 0}, {2, 2, -2, -2, -3, 0, -1, 0}}),
            (std::vector<int32_t>{1, 1, -1, -1, 0, 0, 0, 0}));
  const int64_t low64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(run<int64_t>(ops::def::floor_divide, {{low64, 9}, {-1, 0}}), (std::vector<int64_t>{low64, 0}));
  EXPECT_EQ(run<int8_t>(ops::def::floor_divide, {{-128, -128}, {-1, 3}}), (std::vector<int8_t>{-128, -43}));
  EXPECT_EQ(run<uint8_t>(ops::def::mod, {{200, 7}, {7, 0}}), (std::vector<uint8_t>{4, 0}));
}

TEST(Elementwise, FloatDivisionFollowsTheDivisorsSign) {
  expect_same(run<float>(ops::def::mod, {{7, -7, 7, -7, 6, -6, 1, -1}, {2, 2, -2, -2, -3, 3, kInf, kInf}}),
              {1, 1, -1, -1, -0.0f, 0, 1, kInf});
  expect_same(run<float>(ops::def::mod, {{1, kInf, kNaN, 0}, {0, 2, 2, kNaN}}), {kNaN, kNaN, kNaN, kNaN});
  expect_same(run<float>(ops::def::floor_divide, {{7, -7, 7, -7, 1, -1, 0, 0}, {2, 2, -2, -2, 0, 0, 0, -5}}),
              {3, -4, -4, 3, kInf, -kInf, kNaN, -0.0f});
  expect_same(run<float>(ops::def::floor_divide, {{1, 0.7f}, {0.1f, 0.1f}}), {9, 6});  // as NumPy: 0.1f is a little more than a tenth
}

TEST(Elementwise, NanGoesThrough) {
  expect_same(run<float>(ops::def::maximum, {{kNaN, 1, kNaN, 2}, {1, kNaN, kNaN, 3}}), {kNaN, kNaN, kNaN, 3});
  expect_same(run<float>(ops::def::minimum, {{kNaN, 1, kNaN, 2}, {1, kNaN, kNaN, 3}}), {kNaN, kNaN, kNaN, 2});
  expect_same(run<float>(ops::def::relu, {{kNaN, -1, -0.0f, kInf, -kInf}}), {kNaN, 0, 0, kInf, 0});
  expect_same(run<float>(ops::def::sign, {{kNaN, -3, -0.0f, 0, 2, -kInf}}), {kNaN, -1, 0, 0, 1, -1});
  expect_same(run<float>(ops::def::abs, {{kNaN, -0.0f, -kInf}}), {kNaN, 0, kInf});
}

TEST(Elementwise, FunctionsHaveTheirLimits) {
  expect_same(run<float>(ops::def::exp, {{0, -0.0f, kInf, -kInf, kNaN, 89, -104, 88.72283f}}),
              {1, 1, kInf, 0, kNaN, kInf, 0, 3.40279851e38f});
  expect_same(run<float>(ops::def::log, {{1, 0, -0.0f, -1, kInf, kNaN, -kInf}}), {0, -kInf, -kInf, kNaN, kInf, kNaN, kNaN});
  expect_same(run<float>(ops::def::tanh, {{0, -0.0f, kInf, -kInf, kNaN, 20, -20}}), {0, -0.0f, 1, -1, kNaN, 1, -1});
  expect_same(run<float>(ops::def::sigmoid, {{0, kInf, -kInf, kNaN, 100}}), {0.5f, 1, 0, kNaN, 1});
  expect_same(run<float>(ops::def::sqrt, {{0, -1, kInf, kNaN, 4}}), {0, kNaN, kInf, kNaN, 2});
  expect_same(run<float>(ops::def::rsqrt, {{0, kInf, -1, 4}}), {kInf, 0, kNaN, 0.5f});
  expect_same(run<float>(ops::def::div, {{1, -1, 0, kInf}, {0, 0, 0, kInf}}), {kInf, -kInf, kNaN, kNaN});
}

TEST(Elementwise, MoreFunctionsHaveTheirLimits) {
  auto flags = [](const ir::OpDef& op, std::vector<float> x) {
    ir::Graph g;
    g.outputs = {g.add(op, {g.add_input(f32({int64_t(x.size())}))})};
    return evaluate(g, {Tensor::of<float>({int64_t(x.size())}, x)})[0].values();
  };
  const std::vector<float> odd{kNaN, kInf, -kInf, 0, -3.4e38f, 1e-45f};
  EXPECT_EQ(flags(ops::def::isnan, odd), (std::vector<double>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(flags(ops::def::isinf, odd), (std::vector<double>{0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(flags(ops::def::isfinite, odd), (std::vector<double>{0, 0, 0, 1, 1, 1}));
  expect_same(run<float>(ops::def::round, {{0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 1e9f, kInf, kNaN}}), {0, 2, 2, -0.0f, -2, 1e9f, kInf, kNaN});
  expect_same(run<float>(ops::def::fmod, {{-6, 7, -7, 1, 1, kInf}, {3, -2, 2, kInf, 0, 2}}), {-0.0f, 1, -1, 1, kNaN, kNaN});
  expect_same(run<float>(ops::def::logaddexp, {{-kInf, kInf, kInf, 0, 1000, kNaN}, {-kInf, kInf, -kInf, -kInf, 1000, 0}}),
              {-kInf, kInf, kInf, 0, 1000.69315f, kNaN});
  expect_same(run<float>(ops::def::gelu, {{kInf, -kInf, kNaN, 100, -100}}), {kInf, -0.0f, kNaN, 100, -0.0f});
  expect_same(run<float>(ops::def::silu, {{kInf, -kInf, kNaN, 200, -200}}), {kInf, -0.0f, kNaN, 200, -0.0f});
  expect_same(run<float>(ops::def::softplus, {{kInf, -kInf, kNaN, 200, -200}}), {kInf, 0, kNaN, 200, 0});
  expect_same(run<float>(ops::def::sin, {{kInf, kNaN, -0.0f, 1e30f}}), {kNaN, kNaN, -0.0f, std::sin(1e30f)});
  expect_same(run<float>(ops::def::log1p, {{-1, -2, kInf, -0.0f}}), {-kInf, kNaN, kInf, -0.0f});
  expect_same(run<float>(ops::def::pow, {{-2, -2, 0, -0.0f, -1, kNaN, 1}, {3, 0.5f, -1, -3, kInf, 0, kNaN}}),
              {-8, kNaN, kInf, -kInf, 1, 1, 1});
}

TEST(Elementwise, ClipSendsTheGradientWhereTheResultComesFrom) {
  ir::Graph g;
  ir::Value x = g.add_input(f32({6})), low = g.add_input(f32({6})), high = g.add_input(f32({6})), dy = g.add_input(f32({6}));
  ir::Value y = ops::clip(g, x, low, high);
  const std::vector<ir::Value> inputs{x, low, high}, results{y}, cotangents{dy};
  g.outputs = ops::def::clip.vjp({g, *g[y].attrs, inputs, results, cotangents, {}});
  g.outputs.push_back(y);
  const auto out = evaluate(g, {Tensor::of<float>({6}, {0, 1, 2, -5, 5, 0}), Tensor::of<float>({6}, {0, 0, 0, 0, 0, 3}),
                                Tensor::of<float>({6}, {2, 2, 2, 2, 2, 1}), Tensor::of<float>({6}, {1, 1, 1, 1, 1, 1})});
  EXPECT_EQ(out[0].values(), (std::vector<double>{1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(out[1].values(), (std::vector<double>{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(out[2].values(), (std::vector<double>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(out[3].values(), (std::vector<double>{0, 1, 2, 0, 2, 1}));
}

TEST(Elementwise, ParametersThatAreNumbersGiveTheGradientOfParametersThatAreNot) {
  for (const auto& [op, alpha] : std::vector<std::pair<const ir::OpDef*, double>>{{&ops::def::elu, 0.7},
                                                                                  {&ops::def::elu, -0.7},
                                                                                  {&ops::def::leaky_relu, 0.2},
                                                                                  {&ops::def::leaky_relu, -0.2},
                                                                                  {&ops::def::leaky_relu, 0}}) {
    std::vector<std::vector<double>> gradients;
    for (bool number : {false, true}) {
      ir::Graph g;
      const ir::Value x = g.add_input(f32({6})), dy = g.add_input(f32({6})), given = g.add_input(f32({}));
      const ir::Value a = number ? ops::scalar(g, DType::f32, alpha) : given, y = g.add(*op, {x, a});
      const std::vector<ir::Value> inputs{x, a}, results{y}, cotangents{dy};
      g.outputs = {op->vjp({g, *g[y].attrs, inputs, results, cotangents, {}})[0]};
      gradients.push_back(evaluate(g, {Tensor::of<float>({6}, {-2, -0.5, 0, 0.5, 2, 3}), Tensor::of<float>({6}, {1, 2, 3, 4, 5, 6}),
                                       Tensor::of<float>({}, {float(alpha)})})[0]
                              .values());
    }
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(gradients[0][i], gradients[1][i], 1e-6) << op->name << " " << alpha << ", element " << i;
  }
}

TEST(Elementwise, ShiftsByTooManyBitsLeaveNothingButTheSign) {
  EXPECT_EQ(run<int8_t>(ops::def::shift_left, {{1, 1, 1, -1, 3}, {7, 8, -1, 7, 6}}), (std::vector<int8_t>{-128, 0, 0, -128, -64}));
  EXPECT_EQ(run<int8_t>(ops::def::shift_right, {{-128, -128, 127, -5, 5}, {7, 100, 100, -1, -1}}), (std::vector<int8_t>{-1, -1, 0, -1, 0}));
  EXPECT_EQ(run<uint8_t>(ops::def::shift_right, {{255, 255, 255}, {7, 8, 200}}), (std::vector<uint8_t>{1, 0, 0}));
  EXPECT_EQ(run<uint8_t>(ops::def::bitwise_not, {{0, 255, 5}}), (std::vector<uint8_t>{255, 0, 250}));
  EXPECT_EQ(run<int64_t>(ops::def::shift_left, {{1, 1, 1}, {63, 64, -1}}),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 0, 0}));
  EXPECT_EQ(run<int32_t>(ops::def::shift_right, {{-1, std::numeric_limits<int32_t>::min()}, {31, 64}}), (std::vector<int32_t>{-1, -1}));
}

TEST(Elementwise, IntegerPowersTruncate) {
  EXPECT_EQ(run<int32_t>(ops::def::pow, {{2, -2, 0, 1, -1, -1, 2, 0, 3, 7}, {10, 3, 0, -5, -5, -4, -1, -1, 21, 0}}),
            (std::vector<int32_t>{1024, -8, 1, 1, -1, 1, 0, 0, 1870418611, 1}));
}

TEST(Elementwise, HalfTypesRoundOncePerOperation) {
  // 1 + 2^-11 is halfway between two halves, and rounds to the even one; in float it would stay.
  ir::Graph g;
  const TensorType type{DType::f16, {1}};
  ir::Value a = g.add_input(type), b = g.add_input(type);
  g.outputs = {ops::sub(g, ops::add(g, a, b), a)};
  EXPECT_EQ(evaluate(g, {Tensor::from(type, {1}), Tensor::from(type, {0x1p-11})})[0].at(0), 0);
  EXPECT_EQ(evaluate(g, {Tensor::from(type, {1}), Tensor::from(type, {0x1.8p-11})})[0].at(0), 0x1p-10);
}

std::string error_of(const std::function<void(ir::Graph&)>& build, ErrorKind kind) {
  ir::Graph g;
  try {
    build(g);
  } catch (const Error& e) {
    EXPECT_EQ(int(e.kind), int(kind)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Elementwise, RefusesTwoDtypesAndNamesTheConversion) {
  EXPECT_EQ(error_of([](ir::Graph& g) { ops::add(g, g.add_input(i32({})), g.add_input(f32({}))); }, ErrorKind::type),
            "add: operands are i32[] and f32[]\n"
            "  why:   they must have one dtype: tensors are never converted silently\n"
            "  fix:   convert both: lm.astype(x, lm.float64); or the integers alone: lm.float32 is exact up to 2**24");
  EXPECT_EQ(error_of([](ir::Graph& g) { ops::where(g, g.add_input(boolean({2})), g.add_input(f32({2})), g.add_input(i32({}))); },
                     ErrorKind::type),
            "where: operands are f32[2] and i32[]\n"
            "  why:   they must have one dtype: tensors are never converted silently\n"
            "  fix:   convert both: lm.astype(x, lm.float64); or the integers alone: lm.float32 is exact up to 2**24");
}
TEST(Elementwise, RefusesDtypesThatAnOpDoesNotKnow) {
  EXPECT_EQ(error_of([](ir::Graph& g) { ops::exp(g, g.add_input(i32({3}))); }, ErrorKind::type),
            "exp: i32[3] is not floating point\n"
            "  why:   exp is defined for f16, bf16, f32 and f64\n"
            "  fix:   convert it first: x.astype('float32')");
  error_of([](ir::Graph& g) { ops::add(g, g.add_input(boolean({3})), g.add_input(boolean({3}))); }, ErrorKind::type);
  error_of([](ir::Graph& g) { ops::logical_not(g, g.add_input(i32({3}))); }, ErrorKind::type);
  error_of([](ir::Graph& g) { ops::where(g, g.add_input(i32({3})), g.add_input(i32({3})), g.add_input(i32({3}))); }, ErrorKind::type);
  error_of([](ir::Graph& g) { ops::div(g, g.add_input(i32({3})), g.add_input(i32({3}))); }, ErrorKind::type);
  error_of([](ir::Graph& g) { ops::shift_left(g, g.add_input(boolean({3})), g.add_input(boolean({3}))); }, ErrorKind::type);
  EXPECT_EQ(error_of([](ir::Graph& g) { ops::bitwise_and(g, g.add_input(f32({3})), g.add_input(f32({3}))); }, ErrorKind::type),
            "bitwise_and: f32[3] is not an integer tensor\n"
            "  why:   bitwise_and is defined for integers and bool\n"
            "  fix:   convert it first: x.astype('int32')");
}
TEST(Elementwise, RefusesShapesThatDoNotBroadcast) {
  EXPECT_EQ(error_of([](ir::Graph& g) { ops::mul(g, g.add_input(f32({2, 3})), g.add_input(f32({2}))); }, ErrorKind::invalid_argument),
            "mul: f32[2,3] and f32[2] do not fit\n"
            "  why:   dimension 1 is 3 and 2; they must be equal, or one of them 1\n"
            "  fix:   reshape one of them");
}
TEST(Elementwise, BroadcastsUnknownDimensions) {
  ir::Graph g;
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(g.type(ops::add(g, g.add_input(f32({n, 4})), g.add_input(f32({4})))), f32({n, 4}));
  EXPECT_EQ(g.type(ops::add(g, g.add_input(f32({n, 1})), g.add_input(f32({1, n})))), f32({n, n}));
}

TEST(Elementwise, TiesShareTheGradientOfMaximum) {
  ir::Graph g;
  ir::Value a = g.add_input(f32({3})), b = g.add_input(f32({3})), dy = g.add_input(f32({3}));
  ir::Value y = ops::maximum(g, a, b);
  const std::vector<ir::Value> inputs{a, b}, results{y}, cotangents{dy};
  const std::vector<ir::Value> d = ops::def::maximum.vjp({g, *g[y].attrs, inputs, results, cotangents, {}});
  g.outputs = d;
  const auto out = evaluate(g, {Tensor::of<float>({3}, {1, 2, 3}), Tensor::of<float>({3}, {1, 3, 2}), Tensor::of<float>({3}, {8, 8, 8})});
  EXPECT_EQ(out[0].values(), (std::vector<double>{4, 0, 8}));
  EXPECT_EQ(out[1].values(), (std::vector<double>{4, 8, 0}));
}

TEST(Elementwise, PowersOfZeroHaveFiniteGradients) {
  ir::Graph g;
  ir::Value a = g.add_input(f32({3})), b = g.add_input(f32({3})), dy = g.add_input(f32({3}));
  ir::Value y = ops::pow(g, a, b);
  const std::vector<ir::Value> inputs{a, b}, results{y}, cotangents{dy};
  g.outputs = ops::def::pow.vjp({g, *g[y].attrs, inputs, results, cotangents, {}});
  const auto out = evaluate(g, {Tensor::of<float>({3}, {0, 0, -2}), Tensor::of<float>({3}, {0, 2, 3}), Tensor::of<float>({3}, {1, 1, 1})});
  EXPECT_EQ(out[0].values(), (std::vector<double>{0, 0, 12}));
  EXPECT_EQ(out[1].values(), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace lamina::tests
