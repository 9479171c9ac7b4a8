#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

std::vector<std::vector<double>> losses_of(const std::vector<Tensor>& in) {
  const int64_t classes = in[0].type.shape.back().number();
  std::vector<double> losses, probabilities;
  for (int64_t r = 0; r < in[1].size(); ++r) {
    double high = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < classes; ++c) high = std::max(high, in[0].at(r * classes + c));
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(in[0].at(r * classes + c) - high);
    for (int64_t c = 0; c < classes; ++c) probabilities.push_back(std::exp(in[0].at(r * classes + c) - high) / sum);
    losses.push_back(std::log(sum) + high - in[0].at(r * classes + int64_t(in[1].at(r))));
  }
  return {losses, probabilities};
}

const OpCases cases{"sparse_cross_entropy", [] {
                      std::vector<OpCase> out;
                      auto add = [&](Shape logits, DType labels, std::vector<double> values, const std::vector<DType>& dtypes) {
                        const Shape rows(logits.begin(), logits.end() - 1);
                        OpCase c{.name = cat("[", text(logits), "], labels ", labels),
                                 .in = {{f32(logits), -4, 4}, {{labels, rows}, 0, 0, values}}};
                        c.reference = losses_of;
                        c.dtypes = dtypes;
                        c.ulps = 8, c.of_largest = 0.1;
                        if (size_of(logits).number() > 300) c.no_differences = "the smaller cases show it";
                        out.push_back(std::move(c));
                      };
                      add({4, 5}, DType::i64, {3, 0, 4, 4}, kFloating);
                      add({4, 5}, DType::i32, {0, 1, 2, 3}, kFloating);
                      for (DType d : {DType::u8, DType::i8, DType::i16}) add({3, 4}, d, {3, 0, 2}, {DType::f32});
                      add({2, 3, 4}, DType::i32, {0, 1, 2, 3, 0, 1}, {DType::f32});
                      add({5}, DType::i64, {2}, {DType::f32});
                      add({3, 1}, DType::i64, {0}, {DType::f32});
                      add({0, 5}, DType::i64, {}, {DType::f32});
                      add({20, 10}, DType::i64, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {DType::f32});
                      add({2, 300}, DType::u8, {255, 17}, {DType::f32});
                      return out;
                    }};

TEST(SparseCrossEntropy, IsStableForLargeLogits) {
  ir::Graph g;
  const ir::Value logits = g.add_input(f32({2, 2})), labels = g.add_input(i32({2}));
  g.outputs = {ops::sparse_cross_entropy(g, logits, labels)};
  EXPECT_EQ(evaluate(g, {Tensor::of<float>({2, 2}, {1e4f, -1e4f, 1e4f, -1e4f}), Tensor::of<int32_t>({2}, {0, 1})})[0].values(),
            (std::vector<double>{0, 2e4}));
}

TEST(SparseCrossEntropy, ChecksAllLabelsBeforeItWritesAnything) {
  ir::Graph g;
  const ir::Value logits = g.add_input(f32({3, 5})), labels = g.add_input(i32({3})), y = ops::sparse_cross_entropy(g, logits, labels);
  const ir::Node& node = g[y];
  const TensorType in[] = {f32({3, 5}), i32({3})};
  const Kernel kernel = node.op->cpu({*node.attrs, in, node.types, {}});
  Tensor x(in[0]), label = Tensor::of<int32_t>({3}, {0, 1, 7}), losses(node.types[0]), probabilities(node.types[1]);
  std::memset(losses.raw(), 0x7e, losses.byte_count());
  std::memset(probabilities.raw(), 0x7e, probabilities.byte_count());
  const Tensor losses_before = losses.clone(), probabilities_before = probabilities.clone();
  const View views[] = {x.view(), label.view(), losses.view(), probabilities.view()};
  const View *ins[] = {&views[0], &views[1]}, *outs[] = {&views[2], &views[3]};
  Stream stream;
  EXPECT_THROW(kernel.run({stream, kernel.args.get(), ins, outs}), Error);
  EXPECT_TRUE(losses.same_bits(losses_before));
  EXPECT_TRUE(probabilities.same_bits(probabilities_before));
}

}  // namespace
}  // namespace lamina::tests
