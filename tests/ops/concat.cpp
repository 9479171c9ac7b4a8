#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const OpCases cases{"concat", [] {
                      std::vector<OpCase> out;
                      auto add = [&](std::vector<Shape> parts, int axis) {
                        OpCase c{.name = cat("axis ", axis), .in = {}, .attrs = ir::make_attrs(ops::AxisAttrs{axis})};
                        for (const Shape& s : parts) c.name += cat(" [", text(s), "]"), c.in.push_back({f32(s)});
                        const size_t a = size_t(axis < 0 ? axis + int(parts[0].size()) : axis);
                        c.reference = [a](const std::vector<Tensor>& in) {
                          Shape to = in[0].type.shape;
                          for (size_t i = 1; i < in.size(); ++i) to[a] = to[a] + in[i].type.shape[a];
                          return made(to, [&](Index index) {
                            size_t part = 0;
                            for (; index[a] >= in[part].type.shape[a].number(); ++part) index[a] -= in[part].type.shape[a].number();
                            return in[part].at(place(in[part].type.shape, index));
                          });
                        };
                        c.dtypes = kAnyDType;
                        c.ulps = 0;
                        out.push_back(std::move(c));
                      };
                      add({{2}, {3}}, 0);
                      add({{2, 3}, {4, 3}}, 0);
                      add({{2, 3}, {2, 1}, {2, 2}}, 1);
                      add({{2, 3}, {2, 1}, {2, 2}, {2, 1}}, -1);
                      add({{2, 3, 2}, {2, 1, 2}}, 1);
                      add({{2, 0}, {2, 3}, {2, 0}}, 1);
                      add({{0, 3}, {0, 2}}, 1);
                      add({{4}}, 0);
                      return out;
                    }};

// The gradient of the second part begins where the unknown first part ends.
TEST(Concat, GradientWorksForUnknownLengths) {
  ir::Graph g;
  const ir::Value a = g.add_input(parse_type("f32[n,2]")), b = g.add_input(parse_type("f32[m,2]")), y = ops::concat(g, {a, b, a}, 0);
  EXPECT_EQ(text(g.type(y)), "f32[m+2*n,2]");
  const ir::Value dy = g.add_input(g.type(y)), results[] = {y}, cotangents[] = {dy};
  const ir::Node node = g[y];
  g.outputs = node.op->vjp({g, *node.attrs, node.inputs, results, cotangents, {}});
  EXPECT_EQ(text(g.type(g.outputs[1])), "f32[m,2]");
  const ir::Graph concrete = ir::specialize(ir::parse(ir::print(g)), {{"n", 2}, {"m", 1}});
  const std::vector<Tensor> got =
      evaluate(concrete, {Tensor(f32({2, 2})), Tensor(f32({1, 2})), Tensor::of<float>({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})});
  EXPECT_EQ(got[0].values(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(got[1].values(), (std::vector<double>{4, 5}));
  EXPECT_EQ(got[2].values(), (std::vector<double>{6, 7, 8, 9}));
}

}  // namespace
}  // namespace lamina::tests
