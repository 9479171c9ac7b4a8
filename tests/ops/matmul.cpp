#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

Reference product_of(ops::MatmulAttrs flags) {
  return [flags](const std::vector<Tensor>& in) {
    const Shape a = in[0].type.shape, b = in[1].type.shape;
    const size_t ra = a.size(), rb = b.size();
    Shape shape = broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
    const size_t leading = shape.size();
    shape.push_back(a[ra - (flags.transpose_a ? 1 : 2)]);
    shape.push_back(b[rb - (flags.transpose_b ? 2 : 1)]);
    const int64_t depth = a[ra - (flags.transpose_a ? 2 : 1)].number();
    // Where the matrix for these leading indices begins.
    auto matrix = [&](const Shape& s, const Index& out) {
      int64_t at = 0;
      for (size_t d = 0; d + 2 < s.size(); ++d) at = at * s[d].number() + (s[d] == Dim(1) ? 0 : out[leading - (s.size() - 2) + d]);
      return at * s[s.size() - 2].number() * s[s.size() - 1].number();
    };
    const int64_t columns_a = a[ra - 1].number(), columns_b = b[rb - 1].number();
    return made(shape, [&](const Index& i) {
      const int64_t at_a = matrix(a, i), at_b = matrix(b, i), row = i[leading], column = i[leading + 1];
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += in[0].at(at_a + (flags.transpose_a ? k * columns_a + row : row * columns_a + k)) *
               in[1].at(at_b + (flags.transpose_b ? column * columns_b + k : k * columns_b + column));
      return sum;
    });
  };
}

const OpCases cases{"matmul", [] {
                      const std::vector<DType> all{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};
                      std::vector<OpCase> out;
                      auto add = [&](Shape a, Shape b, bool ta, bool tb, const std::vector<DType>& dtypes) {
                        OpCase c{.name = cat("[", text(a), "] [", text(b), "]", ta ? " a transposed" : "", tb ? " b transposed" : ""),
                                 .in = {{f32(a)}, {f32(b)}},
                                 .attrs = ir::make_attrs(ops::MatmulAttrs{ta, tb})};
                        c.reference = product_of({ta, tb});
                        c.dtypes = dtypes;
                        // Sums of k products, each rounded: against the largest element, since terms may cancel.
                        c.ulps = std::max(2.0, std::sqrt(double(a[a.size() - (ta ? 2 : 1)].number()))), c.of_largest = 1;
                        if (size_of(a).number() > 5000) c.no_differences = "the smaller cases show it";
                        c.isas_differ = "a multiplication and an addition are one operation where the machine has it";
                        out.push_back(std::move(c));
                      };
                      for (bool ta : {false, true})
                        for (bool tb : {false, true}) {
                          add(ta ? Shape{3, 2} : Shape{2, 3}, tb ? Shape{4, 3} : Shape{3, 4}, ta, tb, all);
                          add(ta ? Shape{5, 3, 2} : Shape{5, 2, 3}, tb ? Shape{4, 3} : Shape{3, 4}, ta, tb, all);
                          add(ta ? Shape{3, 2} : Shape{2, 3}, tb ? Shape{5, 4, 3} : Shape{5, 3, 4}, ta, tb, {DType::f32});
                          add(ta ? Shape{2, 1, 3, 2} : Shape{2, 1, 2, 3}, tb ? Shape{3, 4, 3} : Shape{3, 3, 4}, ta, tb,
                              {DType::f32, DType::i64});
                          add(ta ? Shape{33, 20} : Shape{20, 33}, tb ? Shape{17, 33} : Shape{33, 17}, ta, tb, all);
                          add(ta ? Shape{0, 2} : Shape{2, 0}, tb ? Shape{4, 0} : Shape{0, 4}, ta, tb, all);  // empty sums
                          add(ta ? Shape{3, 0} : Shape{0, 3}, tb ? Shape{4, 3} : Shape{3, 4}, ta, tb, {DType::f32});
                          add(ta ? Shape{130, 200} : Shape{200, 130}, tb ? Shape{150, 130} : Shape{130, 150}, ta, tb,
                              {DType::f32, DType::f64});  // enough for several threads
                        }
                      add({1, 1}, {1, 1}, false, false, all);
                      add({0, 2, 3}, {3, 4}, false, false, {DType::f32});
                      add({1, 2, 3}, {4, 3, 2}, false, false, {DType::f32});
                      return out;
                    }};

TEST(Matmul, OfIntegersWraps) {
  ir::Graph g;
  const ir::Value a = g.add_input(i32({1, 2})), b = g.add_input(i32({2, 1}));
  g.outputs = {ops::matmul(g, a, b)};
  const Tensor y = evaluate(g, {Tensor::of<int32_t>({1, 2}, {2000000000, 2000000000}), Tensor::of<int32_t>({2, 1}, {2, 1})})[0];
  EXPECT_EQ(y.data<int32_t>()[0], int32_t(uint32_t(6000000000)));
}

TEST(Matmul, GradientTransposesByFlagsOnly) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      ir::Graph g;
      const ir::Value a = g.add_input(f32(ta ? Shape{3, 2} : Shape{2, 3})), b = g.add_input(f32(tb ? Shape{4, 3} : Shape{3, 4})),
                      y = ops::matmul(g, a, b, ta, tb);
      const ir::Value dy = g.add_input(g.type(y)), results[] = {y}, cotangents[] = {dy};
      const ir::Node node = g[y];
      node.op->vjp({g, *node.attrs, node.inputs, results, cotangents, {}});
      for (const ir::Node& n : g.nodes()) EXPECT_NE(std::string(n.op->name), "transpose");
    }
}

TEST(Matmul, GradientOfOneMatrixUsedByManyRowsIsOneProduct) {
  ir::Graph g;
  const ir::Value a = g.add_input(f32({5, 2, 3})), b = g.add_input(f32({3, 4})), y = ops::matmul(g, a, b);
  const ir::Value dy = g.add_input(g.type(y)), results[] = {y}, cotangents[] = {dy};
  const ir::Node node = g[y];
  const std::vector<ir::Value> gradients = node.op->vjp({g, *node.attrs, node.inputs, results, cotangents, {}});
  const ir::Node& db = g[gradients[1]];
  EXPECT_EQ(std::string(db.op->name), "matmul");
  EXPECT_EQ(text(g.type(db.inputs[0])), "f32[10,3]");
}

}  // namespace
}  // namespace lamina::tests
