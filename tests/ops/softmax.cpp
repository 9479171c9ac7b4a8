// softmax and log_softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

Reference softmax_of(int axis, bool log) {
  return [=](const std::vector<Tensor>& in) {
    const Shape& shape = in[0].type.shape;
    const size_t a = size_t(axis < 0 ? axis + int(shape.size()) : axis);
    return made(shape, [&](Index index) {
      const double x = in[0].at(place(shape, index));
      double high = -std::numeric_limits<double>::infinity(), sum = 0;
      for (index[a] = 0; index[a] < shape[a].number(); ++index[a]) high = std::max(high, in[0].at(place(shape, index)));
      for (index[a] = 0; index[a] < shape[a].number(); ++index[a]) sum += std::exp(in[0].at(place(shape, index)) - high);
      return log ? x - high - std::log(sum) : std::exp(x - high) / sum;
    });
  };
}

std::vector<OpCase> cases_of(bool log) {
  std::vector<OpCase> out;
  auto add = [&](Shape shape, int axis, std::vector<double> values = {}) {
    OpCase c{
        .name = cat("[", text(shape), "] axis ", axis), .in = {{f32(shape), -4, 4, values}}, .attrs = ir::make_attrs(ops::AxisAttrs{axis})};
    c.reference = softmax_of(axis, log);
    c.dtypes = kFloating;
    c.of_largest = log ? 1 : 0;  // near 0, log_softmax is a difference
    c.ulps = 8;
    if (size_of(shape).number() > 300) c.no_differences = "the smaller cases show it";
    out.push_back(std::move(c));
  };
  for (int axis : {0, 1, -1}) add({3, 5}, axis);
  for (int axis : {0, 1, 2}) add({2, 3, 4}, axis);
  add({6}, 0);
  add({4, 1}, 1);  // one class: 1, or 0
  add({1, 1}, 0);
  add({0, 5}, 1);
  add({5, 0}, 1);
  add({0, 5}, 0);
  add({20, 10}, -1);
  add({3, 300}, -1);
  return out;
}

const OpCases softmax_cases{"softmax", [] { return cases_of(false); }};
const OpCases log_softmax_cases{"log_softmax", [] { return cases_of(true); }};

Tensor run(ir::Value (*op)(ir::Graph&, ir::Value, int), const Tensor& x) {
  ir::Graph g;
  g.add_input(x.type);
  g.outputs = {op(g, g.inputs[0], -1)};
  return evaluate(g, {x})[0];
}

TEST(Softmax, IsStableForLargeNumbers) {
  const Tensor y = run(ops::softmax, Tensor::of<float>({2, 3}, {1e4f, 1e4f, -1e4f, 3e38f, -3e38f, 0}));
  EXPECT_EQ(y.values(), (std::vector<double>{0.5, 0.5, 0, 1, 0, 0}));
}

TEST(Softmax, MinusInfinityGetsProbabilityZero) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run(ops::softmax, Tensor::of<float>({1, 3}, {-inf, 2, 2})).values(), (std::vector<double>{0, 0.5, 0.5}));
  for (double v : run(ops::softmax, Tensor::of<float>({1, 2}, {-inf, -inf})).values()) EXPECT_TRUE(std::isnan(v));
}

TEST(Softmax, SpreadsNaNOverItsRowOnly) {
  const Tensor y = run(ops::softmax, Tensor::of<float>({3, 2}, {NAN, 1, 1, NAN, 1, 1}));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(y.at(i))) << i;
  EXPECT_EQ(y.at(4), 0.5);
  EXPECT_EQ(y.at(5), 0.5);
}

TEST(LogSoftmax, IsStableForLargeNumbers) {
  const Tensor y = run(ops::log_softmax, Tensor::of<float>({1, 3}, {1e4f, 0, -1e4f}));
  EXPECT_EQ(y.values(), (std::vector<double>{0, -1e4, -2e4}));
}

}  // namespace
}  // namespace lamina::tests
