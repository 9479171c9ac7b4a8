// dense, dense_grad_input, dense_grad_weights and dense_update against their decompositions, evaluated in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/elementwise_rows.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::GraphRef;
using ir::Value;
using section::Activation;

const std::vector<Activation> kActivations = [] {
  std::vector<Activation> all{Activation::none};
  for (const section::ActivationRow& row : section::kActivations) all.push_back(row.activation);
  return all;
}();
ops::ActivationAttrs with_parameter(Activation a) {
  return {a, a != Activation::none && section::row_of(a).parameter == section::Parameter::alpha ? 0.7f : 0.0f};
}

struct Size {
  int64_t rows, k, n;
};
// Whole and partial tiles, the benchmark's layers, one row, one column, and empty.
const std::vector<Size> kSizes{{3, 4, 5}, {20, 64, 64},  {20, 64, 10}, {20, 784, 64}, {1, 7, 9},
                               {5, 1, 1}, {33, 17, 130}, {0, 4, 5},    {4, 0, 5},     {4, 5, 0}};

bool is_small(const Size& s) { return s.rows * s.k * s.n < 500; }
// The later activations use the same code as tanh, so one size of layers is enough.
bool is_shown_elsewhere(const Size& s, Activation a) { return a > Activation::sigmoid && !is_small(s) && s.n != 10; }

// Typical weights: sums of many products stay near 1, where activations are not flat.
CaseInput weights(const Size& s, int64_t summed) {
  const double most = summed < 8 ? 0.5 : 1.5 / std::sqrt(double(summed));
  return {f32({s.k, s.n}), -most, most};
}

// Sums of products, each rounded: against the largest element, since terms may cancel.
void allow_sums(OpCase& c, const Size& s) {
  c.ulps = 8 + std::sqrt(double(std::max({s.rows, s.k, s.n}))), c.of_largest = 1;
  c.isas_differ = "a multiplication and an addition are one operation where the machine has it";
  c.dtypes = is_small(s) ? kFloating : std::vector<DType>{DType::f32, DType::f64};
}

const OpCases dense_cases{
    "dense", [] {
      std::vector<OpCase> out;
      for (const Size& s : kSizes)
        for (Activation activation : kActivations)
          for (bool bias : {true, false}) {
            if ((!is_small(s) && activation != Activation::relu && !bias) || is_shown_elsewhere(s, activation)) continue;
            OpCase c{.name = cat(s.rows, " x ", s.k, " x ", s.n, " ", section::name(activation), bias ? " with bias" : ""),
                     .in = {{f32({s.rows, s.k})}, weights(s, s.k)},
                     .attrs = ir::make_attrs(with_parameter(activation))};
            if (bias) c.in.push_back({f32({s.n})});
            allow_sums(c, s);
            out.push_back(std::move(c));
          }
      // Layers of an ensemble: bias and inputs per model or shared.
      for (bool shared : {false, true}) {
        const Size s{5, 7, 18};
        OpCase c{.name = cat("3 models of 5 x 7 x 18", shared ? " on one batch" : ""),
                 .in = {{shared ? f32({5, 7}) : f32({3, 5, 7})}, {f32({3, 7, 18})}, {f32(shared ? Shape{3, 18} : Shape{18})}},
                 .attrs = ir::make_attrs(ops::ActivationAttrs{Activation::tanh})};
        allow_sums(c, s);
        out.push_back(std::move(c));
      }
      return out;
    }};

const OpCases grad_input_cases{"dense_grad_input", [] {
                                 std::vector<OpCase> out;
                                 for (const Size& s : kSizes)
                                   for (Activation activation : kActivations) {
                                     if (is_shown_elsewhere(s, activation)) continue;
                                     OpCase c{.name = cat(s.rows, " x ", s.k, " x ", s.n, " ", section::name(activation)),
                                              .in = {{f32({s.rows, s.n})}, weights(s, s.n)},
                                              .attrs = ir::make_attrs(with_parameter(activation))};
                                     const TensorType y = f32({s.rows, s.k});
                                     if (activation == Activation::relu)
                                       c.in.push_back({y, 0, 0, {0, 0.5, 2, 0, 0, 1}});
                                     else if (activation == Activation::leaky_relu)
                                       c.in.push_back({y, 0, 0, {-0.3, 0.5, 2, -0.6, -0.1, 1}});
                                     else if (activation != Activation::none) {
                                       const ElementwiseRow& row = elementwise_row(name(section::row_of(activation).gradient));
                                       c.in.push_back({y, row.low2, row.high2});
                                     }
                                     allow_sums(c, s);
                                     out.push_back(std::move(c));
                                   }
                                 OpCase models{.name = "3 models of 5 x 7 x 18",
                                               .in = {{f32({3, 5, 18})}, {f32({3, 7, 18})}, {f32({3, 5, 7}), 0.1, 0.9}},
                                               .attrs = ir::make_attrs(ops::ActivationAttrs{Activation::sigmoid})};
                                 allow_sums(models, {5, 7, 18});
                                 out.push_back(std::move(models));
                                 return out;
                               }};

// A region: the gradient's type, then extras.
template <class Build>
GraphRef region(std::vector<TensorType> types, Build build) {
  auto g = std::make_shared<Graph>();
  std::vector<Value> in;
  for (TensorType& t : types) in.push_back(g->add_input(std::move(t)));
  g->outputs = build(*g, in);
  return g;
}

// The elementwise function of an update on a gradient of this shape, followed by extras.
struct Update {
  const char* name;
  std::function<std::vector<TensorType>(const Shape&)> extras;
  std::function<std::vector<Value>(Graph&, const std::vector<Value>&)> build;
};
std::vector<Update> updates() {
  auto none = [](const Shape&) { return std::vector<TensorType>{}; };
  return {
      {"the gradient itself", none, [](Graph&, auto& in) { return std::vector{in[0]}; }},
      {"sgd", [](const Shape& s) { return std::vector{f32(s), f32({})}; },
       [](Graph& g, auto& in) { return std::vector{ops::sub(g, in[1], ops::mul(g, in[2], in[0]))}; }},
      {"momentum and the gradient", [](const Shape& s) { return std::vector{f32(s), f32(s), f32({})}; },
       [](Graph& g, auto& in) {
         const Value v = ops::add(g, ops::mul(g, in[2], ops::scalar(g, DType::f32, 0.9)), in[0]);
         return std::vector{ops::sub(g, in[1], ops::mul(g, in[3], v)), v, in[0]};
       }},
      {"scaled by columns", [](const Shape& s) { return std::vector{f32({s.back()}), f32({1})}; },
       [](Graph& g, auto& in) { return std::vector{ops::mul(g, ops::mul(g, in[0], in[1]), in[2])}; }},
      {"nothing", none, [](Graph&, auto&) { return std::vector<Value>{}; }},
  };
}

const OpCases update_cases{
    "dense_update", [] {
      std::vector<OpCase> out;
      for (const Size& s : kSizes)
        for (const Update& weight : updates())
          for (const Update& bias : updates()) {
            const bool same = std::string(weight.name) == bias.name,
                       nothing = std::string(bias.name) == "nothing" && std::string(weight.name) == "sgd";
            if (is_small(s) ? !s.rows && !same && !nothing : !same && !nothing) continue;
            if (same && std::string(weight.name) == "nothing") continue;
            OpCase c{.name = cat(s.rows, " x ", s.k, " x ", s.n, " weight: ", weight.name, ", bias: ", bias.name),
                     .in = {{f32({s.rows, s.k})}, {f32({s.rows, s.n})}}};
            const Shape weight_shape{s.k, s.n}, bias_shape{s.n};
            std::vector<TensorType> weight_types{f32(weight_shape)}, bias_types{f32(bias_shape)};
            for (const TensorType& t : weight.extras(weight_shape)) weight_types.push_back(t), c.in.push_back({t});
            for (const TensorType& t : bias.extras(bias_shape)) bias_types.push_back(t), c.in.push_back({t});
            c.attrs = ir::make_attrs(ops::DenseUpdateAttrs{int64_t(weight_types.size()) - 1});
            c.regions = {region(weight_types, weight.build), region(bias_types, bias.build)};
            allow_sums(c, s);
            c.dtypes = {DType::f32};  // the regions' inputs are f32
            out.push_back(std::move(c));
          }
      // Each leaf of the batch by itself: weights by their sum of squares, the bias by a mean.
      for (const Size& s : kSizes)
        for (const int64_t leaves : {2, 3, 8}) {
          if (s.rows < leaves || s.k == 0 || s.n == 0) continue;
          OpCase c{.name = cat(s.rows, " x ", s.k, " x ", s.n, " in ", leaves, " leaves"),
                   .in = {{f32({s.rows, s.k})}, {f32({s.rows, s.n})}, {f32({s.k, s.n})}}};
          std::vector<TensorType> weight_types(size_t(leaves), f32({s.k, s.n})), bias_types(size_t(leaves), f32({s.n}));
          weight_types.push_back(f32({s.k, s.n}));
          const auto added = [leaves](Graph& r, auto& in, bool squared) {
            Value all = in[0];
            for (size_t i = 1; i < size_t(leaves); ++i) all = ops::add(r, all, squared ? ops::mul(r, in[i], in[i - 1]) : in[i]);
            return all;
          };
          c.attrs = ir::make_attrs(ops::DenseUpdateAttrs{1, Precision::float32, leaves});
          c.regions = {
              region(weight_types, [added](Graph& r, auto& in) { return std::vector{ops::sub(r, in.back(), added(r, in, true)), in[1]}; }),
              region(bias_types, [added](Graph& r, auto& in) { return std::vector{added(r, in, false)}; })};
          allow_sums(c, s);
          c.dtypes = {DType::f32};
          out.push_back(std::move(c));
        }
      // An ensemble's layer with a rate per model, on inputs per model and on a shared batch.
      for (bool shared : {false, true}) {
        const Shape weight{3, 7, 18}, bias{3, 18}, weight_rate{3, 1, 1}, bias_rate{3, 1};
        const auto descend = [](Graph& g, auto& in) { return std::vector{ops::sub(g, in[1], ops::mul(g, in[2], in[0]))}; };
        OpCase c{.name = cat("3 models of 5 x 7 x 18", shared ? " on one batch" : ""),
                 .in = {{shared ? f32({5, 7}) : f32({3, 5, 7})},
                        {f32({3, 5, 18})},
                        {f32(weight)},
                        {f32(weight_rate)},
                        {f32(bias)},
                        {f32(bias_rate)}},
                 .attrs = ir::make_attrs(ops::DenseUpdateAttrs{2}),
                 .regions = {region({f32(weight), f32(weight), f32(weight_rate)}, descend),
                             region({f32(bias), f32(bias), f32(bias_rate)}, descend)}};
        allow_sums(c, {5, 7, 18});
        c.dtypes = {DType::f32};
        out.push_back(std::move(c));
      }
      return out;
    }};

const OpCases grad_weights_cases{"dense_grad_weights", [] {
                                   std::vector<OpCase> out;
                                   for (const Size& s : kSizes) {
                                     OpCase c{.name = cat(s.rows, " x ", s.k, " x ", s.n),
                                              .in = {{f32({s.rows, s.k})}, {f32({s.rows, s.n})}}};
                                     allow_sums(c, s);
                                     out.push_back(std::move(c));
                                   }
                                   return out;
                                 }};

// f64 has no section step: the decomposition runs.
TEST(DenseUpdate, DoublesUseTheDecomposition) {
  Graph g;
  const Value x = g.add_input(f32({4, 3})), dz = g.add_input(f32({4, 2})), w = g.add_input(f32({3, 2}));
  auto sgd = region({f32({3, 2}), f32({3, 2})}, [](Graph& r, auto& in) { return std::vector{ops::sub(r, in[1], in[0])}; });
  auto sum = region({f32({2})}, [](Graph&, auto& in) { return std::vector{in[0]}; });
  const Value y = ops::dense_update(g, x, dz, {w}, {}, sgd, sum);
  g.outputs = {y, {y.node, 1}};
  const std::vector<Tensor> in{random_tensor({f32({4, 3})}, 1), random_tensor({f32({4, 2})}, 2), random_tensor({f32({3, 2})}, 3)};
  const std::vector<Tensor> narrow = evaluate(g, in), wide = evaluate(in_f64(g), {in_f64(in[0]), in_f64(in[1]), in_f64(in[2])});
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(wide[r].type.dtype, DType::f64);
    expect_close(narrow[r], wide[r].values(), 8, 1, cat("result ", r));
  }
}

TEST(DenseUpdate, OnlyExtrasMayBeOverwritten) {
  EXPECT_TRUE(ops::def::dense_update.in_place);
  EXPECT_EQ(ops::def::dense_update.first_in_place, 2);
}

// With an extra that a step does not support, plain ops run.
TEST(DenseUpdate, ScaledByRowsRunsOutsideOfSections) {
  Graph g;
  const Value x = g.add_input(f32({4, 3})), dz = g.add_input(f32({4, 2})), scale = g.add_input(f32({3, 1}));
  auto scaled = region({f32({3, 2}), f32({3, 1})}, [](Graph& r, auto& in) { return std::vector{ops::mul(r, in[0], in[1])}; });
  auto nothing = region({f32({2})}, [](Graph&, auto&) { return std::vector<Value>{}; });
  const Value y = ops::dense_update(g, x, dz, {scale}, {}, scaled, nothing);
  g.outputs = {y};
  const ir::Node& node = g[y];
  const TensorType types[] = {f32({4, 3}), f32({4, 2}), f32({3, 1})};
  ir::SectionStep step;
  EXPECT_FALSE(node.op->section({*node.attrs, types, node.types, node.regions}, step));
  const Tensor ones = Tensor::from(f32({4, 3}), std::vector<double>(12, 1)), twos = Tensor::from(f32({4, 2}), std::vector<double>(8, 2));
  EXPECT_EQ(evaluate(g, {ones, twos, Tensor::of<float>({3, 1}, {1, 2, 3})})[0].values(), (std::vector<double>{8, 8, 16, 16, 24, 24}));
}

TEST(DenseOps, RefuseOperandsThatDoNotFit) {
  Graph g;
  const Value x = g.add_input(f32({4, 3})), w = g.add_input(f32({3, 5})), b = g.add_input(f32({5})), dz = g.add_input(f32({4, 5})),
              wide = g.add_input({DType::f64, {3, 5}}), n = g.add_input(i32({4, 3})), vector = g.add_input(f32({3}));
  auto good = region({f32({3, 5})}, [](Graph&, auto& in) { return std::vector{in[0]}; });
  auto good_bias = region({f32({5})}, [](Graph&, auto& in) { return std::vector{in[0]}; });
  auto other_shape = region({f32({3, 5})}, [](Graph& r, auto& in) { return std::vector{ops::sum(r, in[0])}; });
  auto other_type = region({f32({5, 3})}, [](Graph&, auto& in) { return std::vector{in[0]}; });
  EXPECT_NO_THROW(ops::dense(g, x, w, b, Activation::relu));
  EXPECT_THROW(ops::dense(g, w, x, b, Activation::relu), Error);
  EXPECT_THROW(ops::dense(g, x, w, vector, Activation::relu), Error);
  EXPECT_THROW(ops::dense(g, x, wide, {}, Activation::relu), Error);
  EXPECT_THROW(ops::dense(g, n, n, {}, Activation::relu), Error);
  EXPECT_THROW(ops::dense(g, vector, w, {}, Activation::relu), Error);
  const Value two_models = g.add_input(f32({2, 3, 5})), three_inputs = g.add_input(f32({3, 4, 3}));
  EXPECT_NO_THROW(ops::dense(g, x, two_models, b, Activation::relu));
  EXPECT_THROW(ops::dense(g, three_inputs, two_models, {}, Activation::relu), Error);
  EXPECT_THROW(ops::dense(g, three_inputs, w, {}, Activation::relu), Error);
  EXPECT_THROW(ops::dense_grad_input(g, dz, two_models, {}, Activation::none), Error);
  EXPECT_THROW(g.add(ops::def::dense, ir::make_attrs(ops::ActivationAttrs{}), {x}), Error);
  EXPECT_NO_THROW(ops::dense_grad_input(g, dz, w, x, Activation::relu));
  EXPECT_THROW(ops::dense_grad_input(g, dz, w, {}, Activation::relu), Error);
  EXPECT_THROW(ops::dense_grad_input(g, dz, w, x, Activation::none), Error);
  EXPECT_THROW(ops::dense_grad_input(g, dz, w, dz, Activation::relu), Error);
  EXPECT_THROW(ops::dense_grad_input(g, x, w, {}, Activation::none), Error);
  EXPECT_NO_THROW(ops::dense_update(g, x, dz, {}, {}, good, good_bias));
  EXPECT_THROW(ops::dense_update(g, x, dz, {}, {}, other_shape, good_bias), Error);
  EXPECT_THROW(ops::dense_update(g, x, dz, {}, {}, other_type, good_bias), Error);
  EXPECT_THROW(ops::dense_update(g, x, dz, {w}, {}, good, good_bias), Error);
  EXPECT_THROW(ops::dense_update(g, w, dz, {}, {}, good, good_bias), Error);
  EXPECT_THROW(g.add(ops::def::dense_update, ir::make_attrs(ops::DenseUpdateAttrs{1}), {x, dz}, {good, good_bias}), Error);
  EXPECT_THROW(g.add(ops::def::dense_update, ir::make_attrs(ops::DenseUpdateAttrs{-1}), {x, dz}, {good, good_bias}), Error);
  EXPECT_THROW(g.add(ops::def::dense_update, ir::make_attrs(ops::DenseUpdateAttrs{0}), {x, dz}, {good}), Error);
  const auto in_leaves = [&](int64_t leaves, const GraphRef& weight, const GraphRef& bias, Value rows, Value of) {
    return g.add(ops::def::dense_update, ir::make_attrs(ops::DenseUpdateAttrs{0, Precision::float32, leaves}), {rows, of}, {weight, bias});
  };
  const auto first_of = [](int64_t leaves, const Shape& shape) {
    return region(std::vector<TensorType>(size_t(leaves), f32(shape)), [](Graph&, auto& in) { return std::vector{in[0]}; });
  };
  EXPECT_NO_THROW(in_leaves(4, first_of(4, {3, 5}), first_of(4, {5}), x, dz));
  EXPECT_THROW(in_leaves(0, first_of(1, {3, 5}), first_of(1, {5}), x, dz), Error);
  EXPECT_THROW(in_leaves(4, first_of(3, {3, 5}), first_of(4, {5}), x, dz), Error);
  EXPECT_THROW(in_leaves(5, first_of(5, {3, 5}), first_of(5, {5}), x, dz), Error) << "a leaf without rows";
  const Value many = g.add_input(f32({200, 3})), dz_of_many = g.add_input(f32({200, 5}));
  EXPECT_NO_THROW(in_leaves(64, first_of(64, {3, 5}), first_of(64, {5}), many, dz_of_many));
  EXPECT_THROW(in_leaves(65, first_of(65, {3, 5}), first_of(65, {5}), many, dz_of_many), Error);
}

}  // namespace
}  // namespace lamina::tests
