// sum, mean, max, min and prod over axes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ops::ReduceAttrs;

std::vector<bool> reduced_of(const ReduceAttrs& attrs, size_t rank) {
  std::vector<bool> reduced(rank);
  for (size_t a = 0; a < rank; ++a) reduced[a] = attrs.axes.contains(a, rank);
  return reduced;
}

// In long double, in order; integers wrap.
std::vector<double> reduce(const std::string& op, const ReduceAttrs& attrs, const Tensor& x) {
  const std::vector<int64_t> shape = numbers(x.type.shape);
  const std::vector<bool> reduced = reduced_of(attrs, shape.size());
  int64_t outputs = 1, count = 1;
  for (size_t a = 0; a < shape.size(); ++a) (reduced[a] ? count : outputs) *= shape[a];
  const long double start = op == "max"    ? -std::numeric_limits<long double>::infinity()
                            : op == "min"  ? std::numeric_limits<long double>::infinity()
                            : op == "prod" ? 1
                                           : 0;
  std::vector<long double> sums(size_t(outputs), start);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t rest = i, stride = 1, at = 0;
    for (size_t a = shape.size(); a-- > 0;) {
      const int64_t k = rest % shape[a];
      rest /= shape[a];
      if (!reduced[a]) at += k * stride, stride *= shape[a];
    }
    long double& s = sums[size_t(at)];
    const double v = x.at(i);
    if (op == "max")
      s = std::isnan(v) || v > s ? v : s;
    else if (op == "min")
      s = std::isnan(v) || v < s ? v : s;
    else if (op == "prod")
      s *= v;
    else
      s += v;
  }
  std::vector<double> out;
  for (long double s : sums) {
    if (op == "mean") s /= static_cast<long double>(count);
    double v = double(s);
    if (is_integer(x.type.dtype))
      with_dtype(x.type.dtype, [&]<class T>() {
        if constexpr (std::is_integral_v<T>) v = double(T(uint64_t(int64_t(s))));
      });
    out.push_back(v);
  }
  return out;
}

std::vector<OpCase> cases_of(const std::string& op) {
  struct Row {
    Shape shape;
    ReduceAttrs attrs;
  };
  std::vector<Row> rows{
      {{4, 5}, {}},
      {{4, 5}, {{0}, false}},
      {{4, 5}, {{1}, false}},
      {{4, 5}, {{-1}, true}},
      {{4, 5}, {{0, 1}, true}},
      {{7}, {{0}, false}},
      {{}, {}},
      {{2, 3, 4}, {Axes{}, false}},
      {{5}, {Axes{}, true}},
      {{2, 3, 4}, {{1}, false}},
      {{2, 3, 4}, {{0, 2}, true}},
      {{2, 3, 4}, {{1, 2}, false}},
      {{2, 1, 3, 2}, {{-2, 0}, false}},
      {{1, 6}, {{0}, false}},
      {{3, 1}, {{1}, false}},
      {{1, 1}, {}},
      {{0, 3}, {{1}, false}},
      {{3, 2, 2, 3}, {{1, 3}, false}},
  };
  if (op == "sum" || op == "mean" || op == "prod") rows.push_back({{2, 0}, {{1}, false}});
  const size_t small = rows.size();
  // Long enough for blocks, trees and threads.
  for (auto& [shape, attrs] : std::vector<Row>{{{70, 1300}, {{1}, false}},
                                               {{1300, 70}, {{0}, false}},
                                               {{200000}, {}},
                                               {{90, 40, 40}, {{0, 2}, false}},
                                               {{3, 50000}, {{1}, false}}})
    rows.push_back({shape, attrs});
  std::vector<OpCase> cases;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [shape, attrs] = rows[i];
    OpCase c{.name = cat("[", text(shape), "] over ", ir::attr_text(attrs.axes)),
             .in = {op == "prod" ? CaseInput{f32(shape), 0.7, 1.3} : CaseInput{f32(shape), -20, 20}},
             .attrs = ir::make_attrs(attrs)};
    c.reference = [op, attrs](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{reduce(op, attrs, in[0])}; };
    c.dtypes = op == "mean" ? kFloating : i < small ? kAnyDType : kNumeric;
    const int64_t n = size_of(shape).number();
    if (op == "mean" && n == 0) c.no_differences = "it is 0 / 0";
    // Tolerance at the scale of the terms: 20 times the root of their number.
    c.ulps = op == "max" || op == "min" ? 0 : 4;
    c.of_largest = 4;
    if (op == "prod") c.of_largest = 0, c.ulps = i >= small ? 400 : 8;
    if (i >= small) {
      c.no_differences = "the smaller cases show it";
      c.ulps *= 4;
      if (n > 150000) c.dtypes = {DType::f32};
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

const OpCases kSum{"sum", [] {
                     std::vector<OpCase> cases = cases_of("sum");
                     OpCase bools{.name = "of bools", .in = {{boolean({5, 300})}}, .attrs = ir::make_attrs(ReduceAttrs{{1}, false})};
                     bools.reference = [](const std::vector<Tensor>& in) {
                       return std::vector<std::vector<double>>{reduce("sum", {{1}, false}, in[0])};
                     };
                     cases.push_back(bools);
                     return cases;
                   }};
const OpCases kMean{"mean", [] { return cases_of("mean"); }};
const OpCases kMax{"max", [] { return cases_of("max"); }};
const OpCases kMin{"min", [] { return cases_of("min"); }};
const OpCases kProd{"prod", [] {
                      std::vector<OpCase> cases = cases_of("prod");
                      // Zeros, whose gradient cannot be computed by division, and signs.
                      OpCase zeros{.name = "with zeros",
                                   .in = {{f32({4, 5}), 0, 0, {2, 0, -3, 1.5, 1, 0, 2, 0, 4, 1, 1, 2, 3}}},
                                   .attrs = ir::make_attrs(ReduceAttrs{{1}, false})};
                      zeros.reference = [](const std::vector<Tensor>& in) {
                        return std::vector<std::vector<double>>{reduce("prod", {{1}, false}, in[0])};
                      };
                      zeros.dtypes = kNumeric;
                      cases.push_back(zeros);
                      OpCase bools{.name = "of bools", .in = {{boolean({5, 3})}}, .attrs = ir::make_attrs(ReduceAttrs{{1}, false})};
                      bools.reference = zeros.reference;
                      cases.push_back(bools);
                      return cases;
                    }};

Tensor run(const ir::OpDef& op, const Tensor& x, ReduceAttrs attrs) {
  ir::Graph g;
  g.outputs = {g.add(op, ir::make_attrs(std::move(attrs)), {g.add_input(x.type)})};
  return evaluate(g, {x})[0];
}

TEST(Reduce, LongSumsStayAccurate) {
  const int64_t n = 3000000;
  Tensor x(f32({n})), column(f32({n, 1}));
  double want = 0;
  for (int64_t i = 0; i < n; ++i) x.set(i, 0.1 + 1e-3 * double(i % 7)), want += x.at(i);
  EXPECT_NEAR(run(ops::def::sum, x, {}).at(0) / want, 1, 2e-7);
  Tensor wide(f32({n / 3, 3}));
  std::memcpy(wide.raw(), x.raw(), x.byte_count());
  double total = 0;
  for (double v : run(ops::def::sum, wide, {{0}, false}).values()) total += v;
  EXPECT_NEAR(total / want, 1, 5e-7);
}

TEST(Reduce, HalfTypesAccumulateInFloat) {
  Tensor x({DType::f16, {4096}});
  for (int64_t i = 0; i < 4096; ++i) x.set(i, 1);  // sums in f16 would stop at 2048
  EXPECT_EQ(run(ops::def::sum, x, {}).at(0), 4096);
  Tensor y({DType::bf16, {1000, 4}});
  for (int64_t i = 0; i < y.size(); ++i) y.set(i, 1);
  EXPECT_EQ(run(ops::def::sum, y, {{0}, false}).values(), (std::vector<double>{1000, 1000, 1000, 1000}));
}

TEST(Reduce, NanWinsWhereverItIs) {
  for (int64_t n : {5, 40, 3000})
    for (int64_t at : {int64_t(0), n / 2, n - 1}) {
      Tensor x(f32({n})), columns(f32({n, 2}));
      x.set(at, std::nan("")), columns.set(2 * at, std::nan(""));
      EXPECT_TRUE(std::isnan(run(ops::def::max, x, {}).at(0)) && std::isnan(run(ops::def::min, x, {}).at(0))) << n << " " << at;
      EXPECT_TRUE(std::isnan(run(ops::def::max, columns, {{0}, false}).at(0))) << n << " " << at;
      EXPECT_EQ(run(ops::def::max, columns, {{0}, false}).at(1), 0) << n << " " << at;
    }
}

TEST(Reduce, HandlesEmptyInputs) {
  const Tensor none(f32({3, 0}));
  EXPECT_EQ(run(ops::def::sum, none, {{1}, false}).values(), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(std::isnan(run(ops::def::mean, none, {{1}, false}).at(2)));
  EXPECT_EQ(run(ops::def::max, none, {{0}, false}).size(), 0);
  try {
    run(ops::def::max, none, {{1}, false});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()),
              "max: f32[3,0] has nothing to choose from\n"
              "  why:   a reduced dimension is 0, and there is no largest or smallest of no elements\n"
              "  fix:   check the size before");
  }
}

TEST(Reduce, RefusesBadAxesAndDtypes) {
  ir::Graph g;
  ir::Value x = g.add_input(f32({2, 3})), i = g.add_input(i32({2}));
  EXPECT_THROW(ops::sum(g, x, {2}), Error);
  EXPECT_THROW(ops::sum(g, x, {-3}), Error);
  EXPECT_THROW(ops::sum(g, x, {1, -1}), Error);
  EXPECT_THROW(ops::mean(g, i), Error);
}

TEST(Reduce, TiesShareTheGradientOfMax) {
  ir::Graph g;
  ir::Value x = g.add_input(f32({4})), dy = g.add_input(f32({})), y = ops::max(g, x);
  const std::vector<ir::Value> inputs{x}, results{y}, cotangents{dy};
  g.outputs = ops::def::max.vjp({g, *g[y].attrs, inputs, results, cotangents, {}});
  EXPECT_EQ(evaluate(g, {Tensor::of<float>({4}, {1, 3, 3, 2}), Tensor::of<float>({}, {8})})[0].values(), (std::vector<double>{0, 4, 4, 0}));
}

TEST(Reduce, MeanOfAnUnknownLengthHasAGradient) {
  ir::Graph g;
  ir::Value x = g.add_input(f32({Dim::symbol("n"), 2})), dy = g.add_input(f32({2})), y = ops::mean(g, x, {0});
  const std::vector<ir::Value> inputs{x}, results{y}, cotangents{dy};
  g.outputs = ops::def::mean.vjp({g, *g[y].attrs, inputs, results, cotangents, {}});
  EXPECT_EQ(g.type(g.outputs[0]), f32({Dim::symbol("n"), 2}));
  const ir::Graph three = ir::specialize(g, {{"n", 4}});
  EXPECT_EQ(evaluate(three, {Tensor(f32({4, 2})), Tensor::of<float>({2}, {8, 2})})[0].values(),
            (std::vector<double>{2, 0.5, 2, 0.5, 2, 0.5, 2, 0.5}));
}

TEST(SumTo, UndoesEveryBroadcast) {
  for (const Shape& shape :
       {Shape{}, Shape{4}, Shape{1}, Shape{3, 4}, Shape{3, 1}, Shape{1, 4}, Shape{1, 1}, Shape{2, 3, 4}, Shape{2, 1, 1}}) {
    ir::Graph g;
    g.outputs = {ops::sum_to(g, ops::broadcast_to(g, g.add_input(f32(shape)), {2, 3, 4}), shape)};
    EXPECT_EQ(g.type(g.outputs[0]), f32(shape));
    const Tensor x = random_tensor({f32(shape)}, 3), y = evaluate(g, {x})[0];
    for (int64_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y.at(i), x.at(i) * 24 / double(x.size()), 1e-5) << "[" << text(shape) << "]";
  }
}

}  // namespace
}  // namespace lamina::tests
