// Cumulative sums along one axis.
#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ops::CumsumAttrs;

std::vector<double> running_sums(const Tensor& x, const CumsumAttrs& attrs) {
  const std::vector<int64_t> shape = numbers(x.type.shape);
  const size_t axis = size_t(attrs.axis < 0 ? attrs.axis + int(shape.size()) : attrs.axis);
  int64_t outer = 1, inner = 1;
  for (size_t a = 0; a < shape.size(); ++a)
    if (a != axis) (a < axis ? outer : inner) *= shape[a];
  std::vector<double> out(size_t(x.size()));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; ++j) {
      double sum = 0;
      for (int64_t step = 0; step < shape[axis]; ++step) {
        const int64_t k = attrs.reverse ? shape[axis] - 1 - step : step, at = (o * shape[axis] + k) * inner + j;
        if (attrs.exclusive) out[size_t(at)] = sum;
        sum += x.at(at);
        if (!attrs.exclusive) out[size_t(at)] = sum;
      }
    }
  return out;
}

const OpCases kCases{
    "cumsum", [] {
      struct Row {
        Shape shape;
        CumsumAttrs attrs;
      };
      std::vector<OpCase> cases;
      for (const auto& [shape, attrs] : std::vector<Row>{{{7}, {0, false, false}},
                                                         {{3, 5}, {-1, true, false}},
                                                         {{3, 5}, {0, false, true}},
                                                         {{2, 3, 4}, {1, true, true}},
                                                         {{2, 3, 4}, {-3, false, false}},
                                                         {{4, 0}, {0, false, false}},
                                                         {{0, 4}, {0, true, false}},
                                                         {{1, 1}, {1, false, true}},
                                                         {{3, 100, 150}, {1, false, false}},
                                                         {{600, 500}, {1, true, false}}}) {
        OpCase c{
            .name = cat("[", text(shape), "] along ", attrs.axis, attrs.reverse ? ", reverse" : "", attrs.exclusive ? ", exclusive" : ""),
            .in = {{f32(shape), 0, 3}},
            .attrs = ir::make_attrs(attrs)};
        const CumsumAttrs a = attrs;
        c.reference = [a](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{running_sums(in[0], a)}; };
        const bool large = size_of(shape).number() > 1000;
        c.dtypes = large ? std::vector<DType>{DType::f32, DType::i64} : kAnyDType;
        c.ulps = 30;  // one addition each
        c.of_largest = 1;
        if (large) c.no_differences = "the smaller cases show it";
        cases.push_back(std::move(c));
      }
      OpCase bools{.name = "of bools", .in = {{boolean({5, 9})}}, .attrs = ir::make_attrs(CumsumAttrs{1, false, false})};
      bools.reference = [](const std::vector<Tensor>& in) {
        return std::vector<std::vector<double>>{running_sums(in[0], {1, false, false})};
      };
      cases.push_back(bools);
      return cases;
    }};

TEST(Cumsum, HalfTypesAccumulateInFloat) {
  ir::Graph g;
  const TensorType type{DType::f16, {4096}};
  g.outputs = {ops::cumsum(g, g.add_input(type), 0)};
  Tensor x(type);
  for (int64_t i = 0; i < 4096; ++i) x.set(i, 1);  // sums in f16 would stop at 2048
  EXPECT_EQ(evaluate(g, {x})[0].at(4095), 4096);
}

TEST(Cumsum, RefusesAxesOutOfRange) {
  ir::Graph g;
  const ir::Value x = g.add_input(f32({2, 3})), number = g.add_input(f32({}));
  EXPECT_THROW(ops::cumsum(g, x, 2), Error);
  EXPECT_THROW(ops::cumsum(g, x, -3), Error);
  EXPECT_THROW(ops::cumsum(g, number, 0), Error);
}

}  // namespace
}  // namespace lamina::tests
