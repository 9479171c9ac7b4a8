// The elementwise ops in several shapes and all dtypes, against double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/elementwise_rows.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

// NumPy's broadcasting, one element at a time.
std::vector<double> apply(const std::vector<Tensor>& in, double (*f)(double, double, double)) {
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

// The dtypes that an op takes.
const std::vector<DType>& dtypes_of(const ElementwiseRow& row) {
  static const std::vector<DType> any{DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8,
                                      DType::i8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
  static const std::vector<DType> bits{DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::boolean}, boolean{DType::boolean};
  if (row.dtypes) return *row.dtypes;
  switch (kernels::domain(kernels::ScalarOp(ir::find_op(row.op).scalar_op))) {
    case kernels::Domain::floating: return kFloating;
    case kernels::Domain::numeric: return kNumeric;
    case kernels::Domain::integer: return kIntegers;
    case kernels::Domain::bits: return bits;
    case kernels::Domain::boolean: return boolean;
    case kernels::Domain::any: break;
  }
  return any;
}

std::vector<OpCase> cases_of(const ElementwiseRow& row) {
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
  const int operands = ir::find_op(row.op).inputs;
  const std::vector<DType>& dtypes = dtypes_of(row);
  std::vector<OpCase> cases;
  auto add = [&](const std::vector<Shape>& s, bool is_large) {
    OpCase c;
    for (size_t i = 0; i < s.size(); ++i) {
      c.name += cat(i ? " " : "", "[", text(s[i]), "]");
      c.in.push_back({f32(s[i]), i == 0 ? row.low : row.low2, i == 0 ? row.high : row.high2});
    }
    if (row.op == std::string("where")) c.in[0].type.dtype = DType::boolean;
    c.reference = [f = row.f](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{apply(in, f)}; };
    c.dtypes = is_large ? std::vector<DType>{dtypes[0]} : dtypes;
    c.ulps = row.ulps, c.of_largest = row.of_largest;
    if (is_large) c.no_differences = "the smaller cases show it";
    cases.push_back(std::move(c));
  };
  for (const std::vector<Shape>& s : shapes[size_t(operands)]) add(s, false);
  add(large[size_t(operands)], true);  // enough for several threads
  return cases;
}

const std::vector<OpCases>& registered() {
  static const std::vector<OpCases> cases = [] {
    std::vector<OpCases> all;
    for (const ElementwiseRow& row : elementwise_rows()) all.emplace_back(row.op, [&row] { return cases_of(row); });
    return all;
  }();
  return cases;
}
[[maybe_unused]] const auto& kRegistered = registered();

// --- cases beyond the rows ---

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

TEST(Elementwise, ClipPassesTheGradientToTheOperandThatGivesTheResult) {
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

TEST(Elementwise, ConstantAndTensorParametersHaveEqualGradients) {
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

TEST(Elementwise, ShiftsByTooManyBitsKeepOnlyTheSign) {
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
  // 1 + 2^-11 is a tie between two halves, and rounds to even; in float it would stay.
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
TEST(Elementwise, RefusesUnsupportedDtypes) {
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
