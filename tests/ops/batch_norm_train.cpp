#include "graph/ops/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/autodiff/gradient.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ops::BatchNormAttrs;

const std::vector<DType> kWide{DType::f32, DType::f64};

struct Norm {
  const char* name;
  Shape x;
  BatchNormAttrs attrs = {.epsilon = 0.1};
  std::vector<DType> dtypes = {DType::f32};
  Shape channels() const { return {x.back()}; }
};
// One GPU kernel covers the whole op (library) and uses our own kernels otherwise; a CPU has none.
std::vector<Norm> norms() {
  return {{"images", {2, 3, 4, 5}, {.epsilon = 0.1, .library = true}, kWide},
          {"rows", {6, 3}, {.epsilon = 1, .library = true}, kWide},
          {"without gamma", {3, 2, 4}, {.epsilon = 0.1, .scale = false, .library = true}},
          {"without beta", {3, 2, 4}, {.epsilon = 0.1, .center = false, .library = true}},
          {"without both", {5, 4}, {.epsilon = 0.1, .scale = false, .center = false, .library = true}},
          {"one row", {1, 3}, {.epsilon = 0.1, .library = true}},
          {"one channel", {2, 3, 3, 1}, {.epsilon = 0.1, .library = true}},
          {"no channels", {4, 0}, {.epsilon = 0.1, .library = true}},
          {"many rows", {9, 13, 17, 7}, {.epsilon = 1e-3, .library = true}}};
}
bool large(const Norm& n) { return size_of(n.x).number() > 1000; }

Reference normalized(const Norm& n) {
  return [n](const std::vector<Tensor>& in) {
    const int64_t c = n.x.back().number(), rows = c ? size_of(n.x).number() / c : 0;
    std::vector<double> y(size_t(rows * c)), means(static_cast<size_t>(c)), variances(static_cast<size_t>(c));
    for (int64_t k = 0; k < c; ++k) {
      double sum = 0, squares = 0;
      for (int64_t r = 0; r < rows; ++r) sum += in[0].at(r * c + k);
      const double mean = sum / double(rows);
      for (int64_t r = 0; r < rows; ++r) squares += std::pow(in[0].at(r * c + k) - mean, 2);
      const double variance = squares / double(rows), gamma = n.attrs.scale ? in[1].at(k) : 1, beta = n.attrs.center ? in.back().at(k) : 0;
      for (int64_t r = 0; r < rows; ++r)
        y[size_t(r * c + k)] = (in[0].at(r * c + k) - mean) / std::sqrt(variance + n.attrs.epsilon) * gamma + beta;
      means[size_t(k)] = mean, variances[size_t(k)] = variance;
    }
    return std::vector{y, means, variances};
  };
}

const OpCases cases{"batch_norm_train", [] {
                      std::vector<OpCase> out;
                      for (const Norm& n : norms()) {
                        OpCase c{.name = n.name, .in = {{f32(n.x)}}, .attrs = ir::make_attrs(n.attrs)};
                        for (const bool has : {n.attrs.scale, n.attrs.center})
                          if (has) c.in.push_back({f32(n.channels())});
                        c.reference = normalized(n);
                        c.dtypes = n.dtypes;
                        c.ulps = 32, c.of_largest = 1;
                        if (large(n)) c.no_differences = "the smaller cases show it";
                        out.push_back(std::move(c));
                      }
                      return out;
                    }};

const OpCases gradients{"batch_norm_train_grad", [] {
                          std::vector<OpCase> out;
                          for (const Norm& n : norms()) {
                            OpCase c{.name = n.name, .in = {{f32(n.x)}}, .attrs = ir::make_attrs(n.attrs)};
                            if (n.attrs.scale) c.in.push_back({f32(n.channels())});
                            // The moments must be x's: a library may rely on that.
                            const std::vector<double> x = random_tensor({f32(n.x)}, 1).values();
                            const size_t channels = size_t(n.x.back().number()), rows = channels == 0 ? 0 : x.size() / channels;
                            std::vector<double> mean(channels), variance(channels);
                            for (size_t i = 0; i < x.size(); ++i) mean[i % channels] += x[i] / double(rows);
                            for (size_t i = 0; i < x.size(); ++i)
                              variance[i % channels] += (x[i] - mean[i % channels]) * (x[i] - mean[i % channels]) / double(rows);
                            c.in.insert(c.in.end(), {{f32(n.channels()), 0, 0, mean}, {f32(n.channels()), 0, 0, variance}, {f32(n.x)}});
                            c.dtypes = n.dtypes;
                            c.ulps = 64, c.of_largest = 4;
                            if (large(n)) c.no_differences = "the smaller cases show it";
                            out.push_back(std::move(c));
                          }
                          return out;
                        }};

// y, and the gradients of sum(y dy), by the op or by its decomposition.
std::vector<Tensor> with_gradients(const Norm& n, DType dtype, bool by_op) {
  ir::Graph g;
  std::vector<ir::Value> in{g.add_input({dtype, n.x})};
  for (const bool has : {n.attrs.scale, n.attrs.center})
    if (has) in.push_back(g.add_input({dtype, n.channels()}));
  const ir::Value dy = g.add_input({dtype, n.x});
  const ir::OpDef& op = ir::find_op("batch_norm_train");
  const ir::Value y = by_op ? g.add(op, ir::make_attrs(n.attrs), in) : op.decompose(g, *ir::make_attrs(n.attrs), in, {})[0];
  const std::vector<ir::Value> targets{y}, cotangents{dy};
  g.outputs = autodiff::gradient(g, {.targets = targets, .cotangents = cotangents, .sources = in, .first_node = 0, .blocks = {}});
  g.outputs.push_back(y);
  std::vector<Tensor> values;
  for (size_t i = 0; i < g.inputs.size(); ++i) values.push_back(random_tensor({g.type(g.inputs[i])}, 10 + i));
  return evaluate(g, values);
}

TEST(BatchNormTrain, MatchesItsDecompositionAndGradient) {
  for (const Norm& n : norms())
    for (const DType dtype : kWide) {
      const std::vector<Tensor> got = with_gradients(n, dtype, true), want = with_gradients(n, dtype, false);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << n.name << ", " << dtype << ", " << i;
    }
}

// Also the gradients of mean and variance, which the layer does not use.
TEST(BatchNormTrain, HasGradientsThroughItsMoments) {
  for (const bool by_op : {true, false}) {
    ir::Graph g;
    const ir::Value x = g.add_input({DType::f64, {7, 2}});
    const std::vector<ir::Value> in{x, g.add_input({DType::f64, {2}}), g.add_input({DType::f64, {2}})};
    const ir::OpDef& op = ir::find_op("batch_norm_train");
    const ir::AttrsRef attrs = ir::make_attrs(BatchNormAttrs{});
    const ir::Value first = by_op ? g.add(op, attrs, in) : ir::Value{};
    const std::vector<ir::Value> out =
        by_op ? std::vector{first, ir::Value{first.node, 1}, ir::Value{first.node, 2}} : op.decompose(g, *attrs, in, {});
    const std::vector<ir::Value> targets{ops::add(g, ops::sum(g, ops::square(g, out[0])), ops::sum(g, ops::mul(g, out[1], out[2])))};
    g.outputs = autodiff::gradient(g, {.targets = targets, .cotangents = {}, .sources = in, .first_node = 0, .blocks = {}});
    const std::vector<Tensor> got =
        evaluate(g, {random_tensor({g.type(x)}, 1), random_tensor({g.type(in[1])}, 2), random_tensor({g.type(in[2])}, 3)});
    static std::vector<Tensor> want;
    if (by_op) want = got;
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i].values(), 64, 1, cat("gradient ", i));
  }
}

TEST(BatchNormTrain, RefusesWhatDoesNotFit) {
  const auto refused = [](const TensorType& x, const std::vector<TensorType>& rest, BatchNormAttrs a = {}) {
    ir::Graph g;
    std::vector<ir::Value> in{g.add_input(x)};
    for (const TensorType& t : rest) in.push_back(g.add_input(t));
    try {
      g.add(ir::find_op("batch_norm_train"), ir::make_attrs(a), in);
    } catch (const Error& e) {
      EXPECT_TRUE(e.parts.what.starts_with("batch_norm_train: ")) << e.what();
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused(f32({4, 3}), {f32({3}), f32({3})}));
  EXPECT_FALSE(refused(f32({Dim::symbol("n"), 3}), {f32({3}), f32({3})}));
  EXPECT_TRUE(refused(f32({3}), {f32({3}), f32({3})}));
  EXPECT_TRUE(refused(i32({4, 3}), {i32({3}), i32({3})}));
  EXPECT_TRUE(refused(f32({4, 3}), {f32({4}), f32({3})}));
  EXPECT_TRUE(refused(f32({4, 3}), {f32({3}), {DType::f64, {3}}}));
  EXPECT_TRUE(refused(f32({4, 3}), {f32({3})}));
  EXPECT_TRUE(refused(f32({4, 3}), {f32({3}), f32({3})}, {.scale = false}));
}

TEST(BatchNormTrain, LibraryNeedsFloatingTypeAndTwoRows) {
  const auto operations = [](Shape x, DType dtype = DType::f32) { return ops::batch_norm_operations({dtype, x}).value_or(-1); };
  EXPECT_EQ(operations({2, 3, 4, 5}), 480);
  EXPECT_EQ(operations({2, 5}, DType::f64), 40);
  EXPECT_EQ(operations({2, 5}, DType::bf16), -1) << "half types are converted before";
  EXPECT_EQ(operations({1, 5}), -1);
  EXPECT_EQ(operations({5}), -1);
  EXPECT_EQ(operations({2, 5}, DType::i32), -1);
  EXPECT_EQ(operations({Dim::symbol("n"), 5}), -1);
}

}  // namespace
}  // namespace lamina::tests
