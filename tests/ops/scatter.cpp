// scatter, ravel_index and nonzero.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ops::ScatterMode;

struct Layout {
  Shape x, indices;
  int batch_axes;
  std::vector<double> values;
  DType index_dtype = DType::i64;
  Shape updates() const {
    Shape out = indices;
    out.insert(out.end(), x.begin() + batch_axes + 1, x.end());
    return out;
  }
};
const std::vector<Layout> kLayouts{
    {{5}, {3}, 0, {4, 0, -1}},
    {{5}, {}, 0, {2}},
    {{4, 2}, {2, 3}, 0, {1, 3, 3, -4, 1, 2}, DType::i32},
    {{2, 5, 3}, {2, 4}, 1, {0, 4, 2, 2, 1, -1, 0, 3}, DType::i16},
    {{2, 3, 4}, {2, 3, 2}, 2, {3, 0, 1, 1, -4, -1, 2, 2, 0, 0, 3, 1}, DType::u8},
    {{3, 2}, {0}, 0, {}},
    {{3, 0}, {2}, 0, {1, 1}},
};

double combine(double a, double b, ScatterMode mode) {
  switch (mode) {
    case ScatterMode::set: return b;
    case ScatterMode::add: return a + b;
    case ScatterMode::mul: return a * b;
    case ScatterMode::min: return std::min(a, b);
    case ScatterMode::max: break;
  }
  return std::max(a, b);
}

const OpCases scatter_cases{
    "scatter", [] {
      std::vector<OpCase> out;
      for (ScatterMode mode : {ScatterMode::set, ScatterMode::add, ScatterMode::mul, ScatterMode::min, ScatterMode::max})
        for (const Layout& l : kLayouts) {
          std::vector<double> values = l.values;
          if (l.index_dtype == DType::u8)
            for (double& v : values) v = std::abs(v) < 4 ? std::abs(v) : 0;
          out.push_back({.name = cat(kernels::attr_text(mode), " [", text(l.x), "] at [", text(l.indices), "] batch axes ", l.batch_axes),
                         .in = {{f32(l.updates())}, {{l.index_dtype, l.indices}, 0, 0, values}, {f32(l.x)}},
                         .attrs = ir::make_attrs(ops::ScatterIntoAttrs{mode, l.batch_axes})});
          out.back().reference = [l, mode](const std::vector<Tensor>& in) {
            std::vector<double> y = in[2].values();
            const size_t p = size_t(l.batch_axes);
            each_index(l.updates(), [&](const Index& at) {
              const Index of_indices(at.begin(), at.begin() + int64_t(l.indices.size()));
              int64_t index = int64_t(in[1].at(place(l.indices, of_indices)));
              if (index < 0) index += l.x[p].number();
              Index of_x(at.begin(), at.begin() + int64_t(p));
              of_x.push_back(index);
              of_x.insert(of_x.end(), at.begin() + int64_t(l.indices.size()), at.end());
              double& element = y[size_t(place(l.x, of_x))];
              element = combine(element, in[0].at(place(l.updates(), at)), mode);
            });
            return std::vector<std::vector<double>>{y};
          };
          out.back().dtypes = mode == ScatterMode::set ? kAnyDType : kNumeric;
          out.back().ulps = mode == ScatterMode::add || mode == ScatterMode::mul ? 4 : 0, out.back().of_largest = 1;
        }
      return out;
    }};

const OpCases ravel_cases{
    "ravel_index", [] {
      std::vector<OpCase> out;
      auto add = [&](std::vector<CaseInput> in, Shape lengths) {
        Shape shape;
        for (const CaseInput& i : in) shape = broadcast(shape, i.type.shape);
        out.push_back(
            {.name = cat(in.size(), " along [", text(lengths), "]"), .in = in, .attrs = ir::make_attrs(ops::RavelIndexAttrs{lengths})});
        out.back().reference = [=](const std::vector<Tensor>& x) {
          return made(shape, [&](const Index& at) {
            int64_t sum = 0;
            for (size_t k = 0; k < x.size(); ++k) {
              const Shape& own = x[k].type.shape;
              Index mine(at.end() - int64_t(own.size()), at.end());
              for (size_t a = 0; a < own.size(); ++a)
                if (own[a] == Dim(1)) mine[a] = 0;
              int64_t index = int64_t(x[k].at(place(own, mine)));
              if (index < 0) index += lengths[k].number();
              sum = sum * lengths[k].number() + index;
            }
            return double(sum);
          });
        };
      };
      add({{i64({4}), 0, 0, {0, 2, -1, 1}}}, {3});
      add({{i64({4}), 0, 0, {0, 2, -1, 1}}, {i32({4}), 0, 0, {-5, 4, 0, 2}}}, {3, 5});
      add({{i64({3, 1}), 0, 0, {0, 2, -3}}, {{DType::u8, {2}}, 0, 0, {4, 1}}, {i64({}), 0, 0, {6}}}, {3, 5, 7});
      add({{i64({0}), 0, 0, {}}, {i64({1}), 0, 0, {1}}}, {2, 2});
      return out;
    }};

const OpCases nonzero_cases{"nonzero", [] {
                              std::vector<OpCase> out;
                              for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{2, 0}, Shape{0, 3}, Shape{2, 3, 70}}) {
                                out.push_back({.name = cat("[", text(shape), "]"), .in = {{boolean(shape)}}});
                                out.back().reference = [](const std::vector<Tensor>& in) {
                                  const int64_t n = in[0].type.shape.back().number(),
                                                rows = size_of(Shape(in[0].type.shape.begin(), in[0].type.shape.end() - 1)).number();
                                  std::vector<double> places, counts;
                                  for (int64_t r = 0; r < rows; ++r) {
                                    int64_t found = 0;
                                    for (int64_t i = 0; i < n; ++i)
                                      if (in[0].at(r * n + i) != 0) places.push_back(double(i)), ++found;
                                    places.insert(places.end(), size_t(n - found), double(n));
                                    counts.push_back(double(found));
                                  }
                                  return std::vector<std::vector<double>>{places, counts};
                                };
                              }
                              return out;
                            }};

TEST(Scatter, KeepsNanInMinAndMax) {
  const double nan = std::nan("");
  for (ScatterMode mode : {ScatterMode::min, ScatterMode::max}) {
    ir::Graph g;
    const ir::Value updates = g.add_input(f32({3})), x = g.add_input(f32({2}));
    g.outputs = {ops::scatter(g, updates, ops::constant(g, ir::Literal::of<int64_t>({3}, {0, 0, 1})), x, mode)};
    const Tensor y = evaluate(g, {Tensor::from(f32({3}), {1, nan, 5}), Tensor::from(f32({2}), {0, nan})})[0];
    EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(1)));
  }
}

TEST(Scatter, ASingleZeroFactorStillHasAGradient) {
  ir::Graph g;
  const ir::Value u = g.add_input(f32({3})), x = g.add_input(f32({1})), dy = g.add_input(f32({1}));
  const ir::Value y = ops::scatter(g, u, ops::constant(g, ir::Literal::of<int64_t>({3}, {0, 0, 0})), x, ScatterMode::mul);
  const ir::Node node = g[y];
  const std::vector<ir::Value> results{y}, cotangents{dy};
  const std::vector<ir::Value> d = node.op->vjp({g, *node.attrs, node.inputs, results, cotangents, node.regions});
  g.outputs = {d[0], d[2]};
  auto gradients = [&](std::vector<double> factors) {
    const std::vector<Tensor> out =
        evaluate(g, {Tensor::from(f32({3}), factors), Tensor::from(f32({1}), {5}), Tensor::from(f32({1}), {1})});
    std::vector<double> all = out[0].values();
    all.push_back(out[1].at(0));
    return all;
  };
  EXPECT_EQ(gradients({2, 3, 4}), (std::vector<double>{60, 40, 30, 24}));
  EXPECT_EQ(gradients({2, 0, 4}), (std::vector<double>{0, 40, 0, 0}));
  EXPECT_EQ(gradients({0, 0, 4}), (std::vector<double>{0, 0, 0, 0}));
}

TEST(Scatter, RefusesIndicesOutOfRangeBeforeItWrites) {
  for (double bad : {3.0, -4.0}) {
    ir::Graph g;
    const ir::Value updates = g.add_input(f32({2})), x = g.add_input(f32({3})), at = g.add_input(i64({2}));
    g.outputs = {ops::scatter(g, updates, at, x, ScatterMode::set)};
    try {
      evaluate(g, {Tensor::from(f32({2}), {1, 2}), Tensor::from(f32({3}), {0, 0, 0}), Tensor::from(i64({2}), {0, bad})});
      FAIL() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::index);
    }
  }
}

TEST(RavelIndex, RefusesAPlaceOutOfItsOwnAxis) {
  ir::Graph g;
  const ir::Value a = g.add_input(i64({1})), b = g.add_input(i64({1}));
  g.outputs = {ops::ravel_index(g, {a, b}, {3, 5})};
  EXPECT_EQ(evaluate(g, {Tensor::from(i64({1}), {1}), Tensor::from(i64({1}), {-5})})[0].at(0), 5);
  for (double bad : {5.0, -6.0}) EXPECT_THROW(evaluate(g, {Tensor::from(i64({1}), {1}), Tensor::from(i64({1}), {bad})}), Error);
  EXPECT_THROW(ops::ravel_index(g, {a}, {3, 5}), Error);
  EXPECT_THROW(ops::ravel_index(g, {g.add_input(f32({1}))}, {3}), Error);
}

TEST(Scatter, RefusesWhatDoesNotFit) {
  ir::Graph g;
  const ir::Value x = g.add_input(f32({3, 2})), at = g.add_input(i64({4}));
  EXPECT_THROW(ops::scatter(g, g.add_input(f32({4, 3})), at, x, ScatterMode::set), Error);
  EXPECT_THROW(ops::scatter(g, g.add_input({DType::f64, {4, 2}}), at, x, ScatterMode::set), Error);
  EXPECT_THROW(ops::scatter(g, g.add_input(f32({4, 2})), g.add_input(f32({4})), x, ScatterMode::set), Error);
  EXPECT_THROW(ops::scatter(g, g.add_input(f32({4, 2})), at, x, ScatterMode::set, 2), Error);
  EXPECT_THROW(ops::scatter(g, g.add_input(f32({4, 2})), at, x, ScatterMode::set, -1), Error);
  EXPECT_THROW(ops::scatter(g, g.add_input(boolean({4})), at, g.add_input(boolean({3})), ScatterMode::add), Error);
}

}  // namespace
}  // namespace lamina::tests
