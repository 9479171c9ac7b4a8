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
    auto element = [&](const Tensor& t, const Index& out, int64_t row, int64_t column) {
      const Shape& s = t.type.shape;
      Index index;
      for (size_t d = 0; d + 2 < s.size(); ++d) index.push_back(s[d] == Dim(1) ? 0 : out[leading - (s.size() - 2) + d]);
      index.push_back(row);
      index.push_back(column);
      return t.at(place(s, index));
    };
    return made(shape, [&](const Index& i) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += (flags.transpose_a ? element(in[0], i, k, i[leading]) : element(in[0], i, i[leading], k)) *
               (flags.transpose_b ? element(in[1], i, i[leading + 1], k) : element(in[1], i, k, i[leading + 1]));
      return sum;
    });
  };
}

const OpCases cases{"matmul", [] {
  const std::vector<DType> all{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};
  std::vector<OpCase> out;
  auto add = [&](Shape a, Shape b, bool ta, bool tb, const std::vector<DType>& dtypes) {
    OpCase c{.name = cat("[", text(a), "] [", text(b), "]", ta ? " a transposed" : "", tb ? " b transposed" : ""), .in = {{f32(a)}, {f32(b)}}, .attrs = ir::make_attrs(ops::MatmulAttrs{ta, tb})};
    c.reference = product_of({ta, tb});
    c.dtypes = dtypes;
    // Sums of k products, each rounded: against the largest element, since terms may cancel.
    c.ulps = std::max(2.0, std::sqrt(double(a[a.size() - (ta ? 2 : 1)].number()))), c.of_largest = 1;
    if (size_of(a).number() > 5000) c.no_differences = "the smaller cases show it";
    out.push_back(std::move(c));
  };
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      add(ta ? Shape{3, 2} : Shape{2, 3}, tb ? Shape{4, 3} : Shape{3, 4}, ta, tb, all);
      add(ta ? Shape{5, 3, 2} : Shape{5, 2, 3}, tb ? Shape{4, 3} : Shape{3, 4}, ta, tb, all);
      add(ta ? Shape{3, 2} : Shape{2, 3}, tb ? Shape{5, 4, 3} : Shape{5, 3, 4}, ta, tb, {DType::f32});
      add(ta ? Shape{2, 1, 3, 2} : Shape{2, 1, 2, 3}, tb ? Shape{3, 4, 3} : Shape{3, 3, 4}, ta, tb, {DType::f32, DType::i64});
      add(ta ? Shape{33, 20} : Shape{20, 33}, tb ? Shape{17, 33} : Shape{33, 17}, ta, tb, all);
      add(ta ? Shape{0, 2} : Shape{2, 0}, tb ? Shape{4, 0} : Shape{0, 4}, ta, tb, all);  // sums of nothing
      add(ta ? Shape{3, 0} : Shape{0, 3}, tb ? Shape{4, 3} : Shape{3, 4}, ta, tb, {DType::f32});
      add(ta ? Shape{130, 200} : Shape{200, 130}, tb ? Shape{150, 130} : Shape{130, 150}, ta, tb, {DType::f32, DType::f64});  // enough for several threads
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
      const ir::Value a = g.add_input(f32(ta ? Shape{3, 2} : Shape{2, 3})), b = g.add_input(f32(tb ? Shape{4, 3} : Shape{3, 4})), y = ops::matmul(g, a, b, ta, tb);
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
