// Shape rules with unknown dimensions: their results, and that substituting lengths later gives the same as using those lengths at once.
#include <gtest/gtest.h>

#include <limits>

#include "graph/ops/ops.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::Value;
using Build = std::function<Value(Graph&, const std::vector<Value>&)>;

struct Row {
  const char* name;
  std::vector<std::string> in;
  Build build;
  std::string out;  // of result 0
};

Dim n() { return Dim::symbol("n"); }
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

std::vector<Row> rows() {
  return {
      {"matmul", {"f32[n,3]", "f32[3,4]"}, [](Graph& g, auto& in) { return ops::matmul(g, in[0], in[1]); }, "f32[n,4]"},
      {"matmul of n", {"f32[5,n]", "f32[n,4]"}, [](Graph& g, auto& in) { return ops::matmul(g, in[0], in[1]); }, "f32[5,4]"},
      {"matmul of matrices",
       {"f32[n,1,2,3]", "f32[m,3,4]"},
       [](Graph& g, auto& in) { return ops::matmul(g, in[0], in[1]); },
       "f32[n,m,2,4]"},
      {"dense",
       {"f32[n,3]", "f32[3,4]", "f32[4]"},
       [](Graph& g, auto& in) { return ops::dense(g, in[0], in[1], in[2], section::Activation::relu); },
       "f32[n,4]"},
      {"dense_grad_input",
       {"f32[n,4]", "f32[3,4]"},
       [](Graph& g, auto& in) { return ops::dense_grad_input(g, in[0], in[1], {}, section::Activation::none); },
       "f32[n,3]"},
      {"flatten", {"f32[n,28,28]"}, [](Graph& g, auto& in) { return ops::reshape(g, in[0], {n(), 784}); }, "f32[n,784]"},
      {"rows", {"f32[n,4,3]"}, [](Graph& g, auto& in) { return ops::reshape(g, in[0], {n() * Dim(4), 3}); }, "f32[4*n,3]"},
      {"transpose", {"f32[n,3]"}, [](Graph& g, auto& in) { return ops::transpose(g, in[0], {1, 0}); }, "f32[3,n]"},
      {"broadcast_to", {"f32[3]"}, [](Graph& g, auto& in) { return ops::broadcast_to(g, in[0], {n(), 3}); }, "f32[n,3]"},
      {"slice", {"f32[n,3]"}, [](Graph& g, auto& in) { return ops::slice(g, in[0], {1, 0}, {kEnd, 2}, {1, 1}); }, "f32[-1+n,2]"},
      {"pad_slice",
       {"f32[n,2]"},
       [](Graph& g, auto& in) { return ops::pad_slice(g, in[0], {n() + Dim(1), 4}, {1, 0}, {1, 2}); },
       "f32[1+n,4]"},
      {"concat", {"f32[n,2]", "f32[3,2]"}, [](Graph& g, auto& in) { return ops::concat(g, {in[0], in[1]}, 0); }, "f32[3+n,2]"},
      {"gather", {"f32[5,2]", "i32[n,3]"}, [](Graph& g, auto& in) { return ops::gather(g, in[0], in[1], 0); }, "f32[n,3,2]"},
      {"gather from n", {"f32[n,2]", "i32[4]"}, [](Graph& g, auto& in) { return ops::gather(g, in[0], in[1], 0); }, "f32[4,2]"},
      {"scatter_add", {"f32[n,2]", "i32[n]"}, [](Graph& g, auto& in) { return ops::scatter_add(g, in[0], in[1], {5, 2}, 0); }, "f32[5,2]"},
      {"one_hot", {"i64[n]"}, [](Graph& g, auto& in) { return ops::one_hot(g, in[0], 10, DType::f32); }, "f32[n,10]"},
      {"iota", {"f32[n]"}, [](Graph& g, auto&) { return ops::iota(g, {DType::i32, {n()}}, 0); }, "i32[n]"},
      {"softmax", {"f32[n,10]"}, [](Graph& g, auto& in) { return ops::softmax(g, in[0], 1); }, "f32[n,10]"},
      {"log_softmax over n", {"f32[n,10]"}, [](Graph& g, auto& in) { return ops::log_softmax(g, in[0], 0); }, "f32[n,10]"},
      {"sparse_cross_entropy",
       {"f32[n,10]", "i32[n]"},
       [](Graph& g, auto& in) { return ops::sparse_cross_entropy(g, in[0], in[1]); },
       "f32[n]"},
      {"sparse_cross_entropy of n classes",
       {"f32[4,n]", "i32[4]"},
       [](Graph& g, auto& in) { return ops::sparse_cross_entropy(g, in[0], in[1]); },
       "f32[4]"},
      {"dropout", {"f32[n,3]", "i64[2]"}, [](Graph& g, auto& in) { return ops::dropout(g, in[0], in[1], 0.5f); }, "f32[n,3]"},
      {"scatter",
       {"f32[m,2]", "i32[m]", "f32[n,2]"},
       [](Graph& g, auto& in) { return ops::scatter(g, in[0], in[1], in[2], ops::ScatterMode::set); },
       "f32[n,2]"},
      {"scatter by factors",
       {"f32[n,m]", "i32[n]", "f32[5,m]"},
       [](Graph& g, auto& in) { return ops::scatter(g, in[0], in[1], in[2], ops::ScatterMode::mul); },
       "f32[5,m]"},
      {"ravel_index",
       {"i32[n]", "i64[3,1]"},
       [](Graph& g, auto& in) { return ops::ravel_index(g, {in[0], in[1]}, {Dim::symbol("m"), 4}); },
       "i64[3,n]"},
      {"nonzero", {"bool[3,n]"}, [](Graph& g, auto& in) { return ops::nonzero(g, in[0]); }, "i64[3,n]"},
      {"sort", {"f32[n,3]"}, [](Graph& g, auto& in) { return ops::sort(g, in[0], 0, true); }, "f32[n,3]"},
      {"argsort", {"f32[3,n]"}, [](Graph& g, auto& in) { return ops::argsort(g, in[0]); }, "i64[3,n]"},
      {"top_k", {"f32[n,m]"}, [](Graph& g, auto& in) { return ops::top_k(g, in[0], 2); }, "f32[n,2]"},
      {"unique", {"f32[n]"}, [](Graph& g, auto& in) { return ops::unique(g, in[0]); }, "i64[n]"},
      {"searchsorted", {"f32[m]", "f32[n,3]"}, [](Graph& g, auto& in) { return ops::searchsorted(g, in[0], in[1]); }, "i64[n,3]"},
      {"random_integers",
       {"i64[2]"},
       [](Graph& g, auto& in) { return ops::random_integers(g, in[0], {DType::i32, {n(), 3}}, 0, 5); },
       "i32[n,3]"},
      {"random_uniform",
       {"i64[2]"},
       [](Graph& g, auto& in) { return ops::random_uniform(g, in[0], {DType::f32, {n(), 3}}, 0, 1); },
       "f32[n,3]"},
  };
}

TEST(UnknownDimensions, WorkInEveryShapeRule) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    Graph g;
    std::vector<Value> in;
    for (const std::string& t : row.in) in.push_back(g.add_input(parse_type(t)));
    const Value y = row.build(g, in);
    g.outputs = {y};
    EXPECT_EQ(text(g.type(y)), row.out);
    ir::verify(g);
    const std::string text = ir::print(g);
    EXPECT_EQ(ir::print(ir::parse(text)), text);
    for (int64_t length : {3, 1}) {
      const DimBindings bindings{{"n", length}, {"m", 2}};
      const Graph concrete = ir::specialize(g, bindings);
      ir::verify(concrete);
      EXPECT_EQ(concrete.type(concrete.outputs[0]).shape, substitute(g.type(y).shape, bindings));
    }
  }
}

TEST(UnknownDimensions, WorkInEveryGradient) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    Graph g;
    std::vector<Value> in;
    for (const std::string& t : row.in) in.push_back(g.add_input(parse_type(t)));
    const Value y = row.build(g, in);
    const ir::Node node = g[y];
    if (!node.op->vjp) continue;  // the op has a reason
    std::vector<Value> results, cotangents;
    for (size_t r = 0; r < node.types.size(); ++r) {
      results.push_back({y.node, int(r)});
      cotangents.push_back(g.add_input(node.types[r]));
    }
    const std::vector<Value> gradients = node.op->vjp({g, *node.attrs, node.inputs, results, cotangents, node.regions});
    ASSERT_EQ(gradients.size(), node.inputs.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!is_floating(g.type(node.inputs[i]).dtype)) continue;
      ASSERT_TRUE(gradients[i].valid());
      EXPECT_EQ(g.type(gradients[i]), g.type(node.inputs[i])) << "input " << i;
      g.outputs.push_back(gradients[i]);
    }
    ir::verify(ir::specialize(g, {{"n", 3}, {"m", 2}}));
  }
}

}  // namespace
}  // namespace lamina::tests
