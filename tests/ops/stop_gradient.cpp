// stop_gradient: returns its input; no gradient flows.
#include <gtest/gtest.h>

#include "graph/autodiff/gradient.h"
#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const OpCases kCases{"stop_gradient", [] {
                       std::vector<OpCase> cases;
                       for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{0, 2}}) {
                         OpCase c{.name = cat("[", text(shape), "]"), .in = {{f32(shape)}}};
                         c.reference = [](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{in[0].values()}; };
                         c.dtypes = kAnyDType;
                         c.ulps = 0;
                         c.no_differences = "it hides them: that is what it is for";
                         cases.push_back(std::move(c));
                       }
                       return cases;
                     }};

TEST(StopGradient, BlocksOnlyItsOwnPath) {
  ir::Graph g;
  const ir::Value x = g.add_input(f32({2})), y = ops::mul(g, x, g.add(ops::def::stop_gradient, {ops::square(g, x)}));
  const std::vector<ir::Value> targets{y}, sources{x};
  g.outputs = autodiff::gradient(g, {.targets = targets, .cotangents = {}, .sources = sources, .first_node = 0, .blocks = {}});
  EXPECT_EQ(evaluate(g, {Tensor::of<float>({2}, {3, -2})})[0].values(), (std::vector<double>{9, 4}));
}

}  // namespace
}  // namespace lamina::tests
