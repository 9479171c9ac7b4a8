// input, constant, read and assign: ops without a computation.
#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

TEST(Assign, ReadsSeeTheValueOfTheLastAssignmentBefore) {
  ir::Graph g;
  const ir::Value x = g.add_input(f32({2}));
  const int w = g.add_resource({"w", f32({2})});
  const ir::Value before = ops::read(g, w);
  ops::assign(g, w, ops::add(g, before, x));
  const ir::Value between = ops::read(g, w);
  ops::assign(g, w, ops::mul(g, between, between));
  g.outputs = {before, between, ops::read(g, w)};
  Resources resources{{w, Tensor::of<float>({2}, {1, 2})}};
  const std::vector<Tensor> got = evaluate(g, {Tensor::of<float>({2}, {10, 20})}, &resources);
  EXPECT_EQ(got[0].values(), (std::vector<double>{1, 2}));
  EXPECT_EQ(got[1].values(), (std::vector<double>{11, 22}));
  EXPECT_EQ(got[2].values(), (std::vector<double>{121, 484}));
  EXPECT_EQ(resources.at(w).values(), (std::vector<double>{121, 484}));
}

TEST(StructuralOps, ReadBackFromTheirText) {
  ir::Graph g;
  const ir::Value x = g.add_input(parse_type("f32[n,2]"), "x");
  const int w = g.add_resource({"layer/w", f32({2})});
  const ir::Value c = ops::constant(g, ir::Literal::of<float>({2}, {1.5f, -2}));
  ops::assign(g, w, ops::add(g, ops::read(g, w), c));
  g.outputs = {ops::add(g, x, ops::read(g, w)), ops::full(g, f32({3}), 7)};
  const std::string text = ir::print(g);
  EXPECT_EQ(ir::print(ir::parse(text)), text);
  EXPECT_TRUE(ir::equal(g, ir::parse(text)));
}

TEST(StructuralOps, SayWhyTheyHaveNoKernelAndNoBatchingRule) {
  for (const ir::OpDef* op : {&ops::def::input, &ops::def::constant, &ops::def::read, &ops::def::assign}) {
    EXPECT_TRUE(op->no_cpu && op->no_cuda && op->no_batch) << op->name;
    EXPECT_FALSE(op->cpu || op->cuda || op->batch) << op->name;
  }
}

}  // namespace
}  // namespace lamina::tests
