// sort, argsort, top_k, searchsorted and unique.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

// The order shared by all of them: NaN is the largest.
bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

// Calls f(places of one row's elements in row-major order) for each row along the axis.
template <class F>
void each_row(const Shape& shape, size_t axis, F f) {
  Shape others = shape;
  others[axis] = 1;
  if (shape[axis] == Dim(0)) return;
  each_index(others, [&](Index at) {
    std::vector<int64_t> row;
    for (at[axis] = 0; at[axis] < shape[axis].number(); ++at[axis]) row.push_back(place(shape, at));
    f(row);
  });
}

std::vector<int64_t> order_of(const Tensor& x, const std::vector<int64_t>& row, bool descending) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double p = x.at(row[size_t(a)]), q = x.at(row[size_t(b)]);
    return descending ? less(q, p) : less(p, q);
  });
  return order;
}

struct Row {
  Shape shape;
  int axis;
  bool descending;
};
const std::vector<Row> kRows{{{7}, 0, false}, {{7}, -1, true}, {{4, 5}, 0, false}, {{4, 5}, 1, true},     {{2, 6, 3}, 1, false},
                             {{1}, 0, false}, {{0}, 0, false}, {{3, 0}, 0, true},  {{2, 1500}, 1, false}, {{1500, 2}, 0, true}};

std::vector<OpCase> sorting_cases(bool places) {
  std::vector<OpCase> out;
  for (const Row& row : kRows) {
    const bool is_long = size_of(row.shape).number() > 1000;
    out.push_back({.name = cat("[", text(row.shape), "] along ", row.axis, row.descending ? " descending" : ""),
                   .in = {{f32(row.shape), is_long ? -90.0 : -3.0, is_long ? 90.0 : 3.0}},
                   .attrs = ir::make_attrs(ops::SortAttrs{row.axis, row.descending})});
    out.back().reference = [=](const std::vector<Tensor>& in) {
      std::vector<double> y(size_t(in[0].size()));
      each_row(row.shape, size_t(row.axis < 0 ? row.axis + int(row.shape.size()) : row.axis), [&](const std::vector<int64_t>& at) {
        const std::vector<int64_t> order = order_of(in[0], at, row.descending);
        for (size_t i = 0; i < at.size(); ++i) y[size_t(at[i])] = places ? double(order[i]) : in[0].at(at[size_t(order[i])]);
      });
      return std::vector<std::vector<double>>{y};
    };
    out.back().dtypes = kAnyDType;
    out.back().ulps = 0;
    if (is_long) out.back().no_differences = "short rows are differentiated";
  }
  return out;
}

const OpCases sort_cases{"sort", [] { return sorting_cases(false); }};
const OpCases argsort_cases{"argsort", [] { return sorting_cases(true); }};

const OpCases top_k_cases{
    "top_k", [] {
      struct Top {
        Shape shape;
        int64_t k;
      };
      std::vector<OpCase> out;
      for (const auto& [shape, k] :
           std::vector<Top>{{{7}, 3}, {{7}, 7}, {{3, 5}, 1}, {{2, 2, 4}, 2}, {{4}, 0}, {{0}, 0}, {{0, 3}, 2}, {{2, 60}, 3}}) {
        out.push_back({.name = cat(k, " of [", text(shape), "]"), .in = {{f32(shape), -9, 9}}, .attrs = ir::make_attrs(ops::TopKAttrs{k})});
        out.back().reference = [shape = shape, k = k](const std::vector<Tensor>& in) {
          std::vector<std::vector<double>> y(2);
          each_row(shape, shape.size() - 1, [&](const std::vector<int64_t>& at) {
            const std::vector<int64_t> order = order_of(in[0], at, true);
            for (int64_t i = 0; i < k; ++i)
              y[0].push_back(in[0].at(at[size_t(order[size_t(i)])])), y[1].push_back(double(order[size_t(i)]));
          });
          return y;
        };
        out.back().dtypes = kAnyDType;
        out.back().ulps = 0;
      }
      return out;
    }};

const OpCases search_cases{
    "searchsorted", [] {
      std::vector<OpCase> out;
      auto add = [&](Shape sorted, Shape values, bool right) {
        out.push_back({.name = cat("[", text(sorted), "] for [", text(values), "]", right ? " right" : ""),
                       .in = {{f32(sorted), 0, 0, {-3, -1, -1, 0, 2, 2, 2, 3}}, {f32(values), -4, 4}},
                       .attrs = ir::make_attrs(ops::SearchAttrs{right})});
        // Rows that begin anywhere in those values, which are then not sorted.
        if (sorted.back() != Dim(8)) out.back().no_loop = "models get other values, which are not sorted";
        out.back().reference = [=](const std::vector<Tensor>& in) {
          const int64_t n = sorted.back().number(), rows = n ? in[0].size() / n : 1, per_row = rows ? in[1].size() / rows : 0;
          std::vector<double> y;
          for (int64_t v = 0; v < in[1].size(); ++v) {
            int64_t count = 0;
            const double value = in[1].at(v);
            for (int64_t i = 0; i < n; ++i) {
              const double s = in[0].at(v / per_row * n + i);
              count += less(s, value) || (right && !less(value, s));
            }
            y.push_back(double(count));
          }
          return std::vector<std::vector<double>>{y};
        };
        out.back().dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64};
      };
      for (bool right : {false, true}) {
        add({8}, {5}, right);
        add({8}, {2, 3}, right);
        add({8}, {}, right);
        add({2, 8}, {2, 4}, right);
        add({0}, {3}, right);
      }
      for (OpCase& c : out) c.no_loop = "models would get elements that are not sorted; the batching rule has a test of its own";
      return out;
    }};

const OpCases unique_cases{
    "unique", [] {
      std::vector<OpCase> out;
      for (const Shape& shape : {Shape{9}, Shape{2, 7}, Shape{2, 0}, Shape{1}, Shape{2, 1300}}) {
        out.push_back({.name = cat("[", text(shape), "]"), .in = {{f32(shape), 0, 0, {2, -1, 0, 2, 2, 1, -1, 0.5, 3}}}});
        out.back().reference = [=](const std::vector<Tensor>& in) {
          std::vector<std::vector<double>> y(4);
          const int64_t n = shape.back().number(), rows = shape.size() == 2 ? shape[0].number() : 1;
          for (int64_t r = 0; r < rows; ++r) {
            std::vector<int64_t> row(static_cast<size_t>(n));
            std::iota(row.begin(), row.end(), r * n);
            const std::vector<int64_t> order = order_of(in[0], row, false);
            std::vector<double> first, counts, which(static_cast<size_t>(n));
            for (size_t i = 0; i < order.size(); ++i) {
              if (i == 0 || less(in[0].at(row[size_t(order[i - 1])]), in[0].at(row[size_t(order[i])])))
                first.push_back(double(order[i])), counts.push_back(0);
              ++counts.back();
              which[size_t(order[i])] = double(first.size()) - 1;
            }
            y[3].push_back(double(first.size()));
            first.resize(size_t(n), n ? first[0] : 0), counts.resize(size_t(n), 0);
            for (int64_t i = 0; i < n; ++i)
              y[0].push_back(first[size_t(i)]), y[1].push_back(which[size_t(i)]), y[2].push_back(counts[size_t(i)]);
          }
          return y;
        };
        out.back().dtypes = kAnyDType;
      }
      return out;
    }};

std::vector<double> sorted_values(const Tensor& x, bool descending) {
  ir::Graph g;
  g.outputs = {ops::sort(g, g.add_input(x.type), -1, descending)};
  return evaluate(g, {x})[0].values();
}

TEST(Sort, PutsNanLastAndTreatsZerosAsEqual) {
  const double nan = std::nan(""), inf = INFINITY;
  for (int64_t length : {9, 3000}) {  // in registers, by partitions
    std::vector<double> values{nan, 1, -inf, -nan, inf, -1};
    values.resize(size_t(length), 0.5);
    for (DType dtype : kFloating) {
      const std::vector<double> up = sorted_values(Tensor::from({dtype, {length}}, values), false),
                                down = sorted_values(Tensor::from({dtype, {length}}, values), true);
      EXPECT_TRUE(std::isnan(up.back()) && std::isnan(up[up.size() - 2]) && up[up.size() - 3] == inf && up[0] == -inf && up[1] == -1)
          << dtype;
      EXPECT_TRUE(std::isnan(down[0]) && std::isnan(down[1]) && down[2] == inf && down.back() == -inf) << dtype;
    }
  }
  ir::Graph g;
  g.outputs = {ops::argsort(g, g.add_input(f32({4}))), ops::argsort(g, g.inputs[0], 0, true)};
  const std::vector<Tensor> order = evaluate(g, {Tensor::from(f32({4}), {0.0, -0.0, 0.0, -0.0})});
  EXPECT_EQ(order[0].values(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(order[1].values(), (std::vector<double>{0, 1, 2, 3}));
}

// Each length takes another path: a network of one to eight vectors, then partitions. Equal keys, sorted input and input in which every
// pivot is bad must not differ.
TEST(Sort, EveryLengthAndPatternGivesTheOrderOfAStableSort) {
  const auto value = [](int pattern, int64_t i, int64_t n) -> double {
    switch (pattern) {
      case 0: return double(i * 7919 % 104729);
      case 1: return double(i);
      case 2: return double(n - i);
      case 3: return double(i * 31 % 3);
      case 4: return 7;
      default: return i % 2 ? double(i) : double(n - i);
    }
  };
  std::vector<int64_t> lengths{1000, 4097};
  for (int64_t n = 1; n < 300; n += n < 70 ? 1 : 13) lengths.push_back(n);
  for (const int64_t n : lengths)
    for (int pattern = 0; pattern < 6; ++pattern)
      for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
        std::vector<double> values;
        for (int64_t i = 0; i < n; ++i) values.push_back(value(pattern, i, n));
        const Tensor x = Tensor::from({dtype, {n}}, values);
        ir::Graph g;
        const ir::Value in = g.add_input(x.type);
        g.outputs = {ops::sort(g, in, 0, false), ops::argsort(g, in, 0, false), ops::argsort(g, in, 0, true)};
        const std::vector<Tensor> got = evaluate(g, {x});
        std::vector<int64_t> row(static_cast<size_t>(n));
        std::iota(row.begin(), row.end(), 0);
        for (const bool descending : {false, true}) {
          const std::vector<int64_t> order = order_of(x, row, descending);
          ASSERT_EQ(got[descending ? 2 : 1].values(), std::vector<double>(order.begin(), order.end()))
              << n << ' ' << pattern << ' ' << dtype;
        }
        std::sort(values.begin(), values.end());
        ASSERT_EQ(got[0].values(), values) << n << ' ' << pattern << ' ' << dtype;
      }
}

// Indices take the lower bits of a word, so keys that differ only in these bits of theirs need another look.
TEST(Sort, DoublesThatDifferInTheirLastBitAreInOrder) {
  std::vector<double> values;
  for (int64_t i = 0; i < 2000; ++i) values.push_back(1 + double(i * 37 % 16) * 0x1p-52);
  const Tensor x = Tensor::from({DType::f64, {2000}}, values);
  ir::Graph g;
  g.outputs = {ops::argsort(g, g.add_input(x.type))};
  std::vector<int64_t> row(2000);
  std::iota(row.begin(), row.end(), 0);
  const std::vector<int64_t> order = order_of(x, row, false);
  EXPECT_EQ(evaluate(g, {x})[0].values(), std::vector<double>(order.begin(), order.end()));
}

TEST(Sort, SortsExtremesOfEveryIntegerType) {
  EXPECT_EQ(sorted_values(Tensor::of<int8_t>({4}, {127, -128, 0, -1}), false), (std::vector<double>{-128, -1, 0, 127}));
  EXPECT_EQ(sorted_values(Tensor::of<uint8_t>({3}, {255, 0, 128}), true), (std::vector<double>{255, 128, 0}));
  ir::Graph g;
  g.outputs = {ops::argsort(g, g.add_input(i64({3})))};
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(evaluate(g, {Tensor::of<int64_t>({3}, {most, least, most - 1})})[0].values(), (std::vector<double>{1, 2, 0}));
}

TEST(Unique, CountsAllNansAsOne) {
  const double nan = std::nan("");
  ir::Graph g;
  const int node = ops::unique(g, g.add_input(f32({6}))).node;
  g.outputs = {{node, 0}, {node, 1}, {node, 2}, {node, 3}};
  const std::vector<Tensor> u = evaluate(g, {Tensor::from(f32({6}), {nan, 0.0, -0.0, -nan, 2, nan})});
  EXPECT_EQ(u[0].values(), (std::vector<double>{1, 4, 0, 1, 1, 1}));
  EXPECT_EQ(u[1].values(), (std::vector<double>{2, 0, 0, 2, 1, 2}));
  EXPECT_EQ(u[2].values(), (std::vector<double>{2, 1, 3, 0, 0, 0}));
  EXPECT_EQ(u[3].at(0), 3);
}

TEST(Searchsorted, BatchesRowsAndValues) {
  const Tensor rows = Tensor::from(f32({2, 3}), {1, 2, 3, 10, 20, 30}), row = Tensor::from(f32({3}), {1, 2, 3}),
               values = Tensor::from(f32({2, 2}), {2, 0, 25, 40}), few = Tensor::from(f32({2}), {2.5, 25});
  auto batched = [](const Tensor& sorted, bool a, const Tensor& wanted, bool b) {
    ir::Graph g;
    const std::vector<ir::Batched> in{{g.add_input(sorted.type), a}, {g.add_input(wanted.type), b}};
    const ops::SearchAttrs attrs;
    const ir::AttrsRef ref = ir::make_attrs(attrs);
    const ir::Batched out = ops::def::searchsorted.batch({g, *ref, in, Dim(2), {}})[0];
    EXPECT_TRUE(out.batched);
    g.outputs = {out.value};
    return evaluate(g, {sorted, wanted})[0].values();
  };
  EXPECT_EQ(batched(rows, true, values, true), (std::vector<double>{1, 0, 2, 3}));
  EXPECT_EQ(batched(rows, true, few, false), (std::vector<double>{2, 3, 0, 2}));
  EXPECT_EQ(batched(row, false, values, true), (std::vector<double>{1, 0, 3, 3}));
}

TEST(TopK, RefusesKLargerThanTheAxis) {
  ir::Graph g;
  EXPECT_THROW(ops::top_k(g, g.add_input(f32({3})), 4), Error);
  EXPECT_THROW(ops::top_k(g, g.add_input(f32({3})), -1), Error);
  EXPECT_THROW(ops::top_k(g, g.add_input(f32({})), 0), Error);
  EXPECT_THROW(ops::sort(g, g.add_input(f32({3})), 1), Error);
  EXPECT_THROW(ops::unique(g, g.add_input(f32({}))), Error);
  EXPECT_THROW(ops::searchsorted(g, g.add_input(f32({3})), g.add_input(i32({3}))), Error);
  EXPECT_THROW(ops::searchsorted(g, g.add_input(f32({2, 3})), g.add_input(f32({3}))), Error);
}

}  // namespace
}  // namespace lamina::tests
