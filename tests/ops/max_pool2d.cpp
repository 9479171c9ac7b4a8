#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ops::MaxPool2dAttrs;
using ops::Padding;

Reference largest(Shape y, MaxPool2dAttrs a) {
  return [=](const std::vector<Tensor>& in) {
    const Shape& x = in[0].type.shape;
    std::vector<double> values, places;
    each_index(y, [&](const Index& at) {
      int64_t from[2];
      for (size_t i : {0, 1}) {
        const int64_t length = x[1 + i].number(), reach = (y[1 + i].number() - 1) * a.strides[i] + a.window[i];
        const int64_t before = a.padding == Padding::given  ? a.pads[2 * i]
                               : a.padding == Padding::same ? std::max<int64_t>(0, reach - length) / 2
                                                            : 0;
        from[i] = at[1 + i] * a.strides[i] - before;
      }
      double best = -INFINITY;
      int64_t found = -1;
      for (int64_t r = from[0]; r < from[0] + a.window[0]; ++r)
        for (int64_t c = from[1]; c < from[1] + a.window[1]; ++c) {
          if (r < 0 || c < 0 || r >= x[1].number() || c >= x[2].number()) continue;
          const double v = in[0].at(place(x, {at[0], r, c, at[3]}));
          if (found < 0 || v > best) best = v, found = (r * x[2].number() + c) * x[3].number() + at[3];
        }
      values.push_back(best);
      places.push_back(double(found));
    });
    return std::vector{values, places};
  };
}

struct Pool {
  const char* name;
  Shape x;
  MaxPool2dAttrs attrs;
  std::vector<DType> dtypes = {DType::f32};
  Shape y() const {
    ir::Graph g;
    return g.type(ops::max_pool2d(g, g.add_input(f32(x)), attrs)).shape;
  }
  // Elements far enough apart that the differences do not change the maximum.
  CaseInput images() const {
    std::vector<double> values;
    for (int64_t i = 0; i < 97; ++i) values.push_back(double(i * 41 % 97) - 30);
    return {f32(x), -30, 60, values};
  }
  bool large() const { return size_of(x).number() > 1000; }
};
std::vector<Pool> pools(std::vector<DType> dtypes) {
  return {{"2x2", {2, 4, 6, 3}, {}, std::move(dtypes)},
          {"overlapping", {1, 5, 5, 2}, {.window = {3, 3}, .strides = {1, 2}}},
          {"around the edges", {2, 5, 4, 1}, {.window = {3, 2}, .strides = {2, 2}, .padding = Padding::same}},
          {"given padding", {1, 4, 4, 2}, {.window = {3, 3}, .strides = {2, 2}, .padding = Padding::given, .pads = {1, 2, 0, 1}}},
          {"gaps", {1, 7, 7, 1}, {.window = {2, 2}, .strides = {3, 5}, .padding = Padding::same}},
          {"one pixel", {2, 3, 3, 2}, {.window = {1, 1}, .strides = {1, 1}}},
          {"no images", {0, 4, 4, 1}, {}},
          {"no channels", {2, 4, 4, 0}, {}},
          {"as many threads as there are", {4, 64, 64, 32}, {}},
          {"overlapping, as many threads as there are", {1, 128, 64, 64}, {.window = {3, 3}, .strides = {1, 1}, .padding = Padding::same}}};
}

const OpCases cases{"max_pool2d", [] {
                      std::vector<OpCase> out;
                      for (const Pool& p : pools(kNumeric)) {
                        OpCase c{.name = p.name, .in = {p.images()}, .attrs = ir::make_attrs(p.attrs)};
                        c.reference = largest(p.y(), p.attrs);
                        c.dtypes = p.dtypes;
                        if (p.large()) c.no_differences = "the smaller cases show it";
                        out.push_back(std::move(c));
                      }
                      return out;
                    }};

const OpCases gradients{"max_pool2d_grad", [] {
                          std::vector<OpCase> out;
                          for (const Pool& p : pools(kFloating)) {
                            const Shape y = p.y();
                            const std::vector<double> places = largest(y, p.attrs)({random_tensor(p.images(), 1)})[1];
                            MaxPool2dAttrs attrs = p.attrs;
                            attrs.shape = p.x;
                            OpCase c{.name = p.name, .in = {{f32(y)}, {i64(y), 0, 0, places}}, .attrs = ir::make_attrs(attrs)};
                            c.reference = [y, x = p.x, places](const std::vector<Tensor>& in) {
                              const int64_t images = x[0].number(), of_image = size_of(x).number() / std::max<int64_t>(1, images),
                                            in_image = size_of(y).number() / std::max<int64_t>(1, images);
                              std::vector<double> dx(size_t(images * of_image));
                              for (size_t k = 0; k < places.size(); ++k)
                                dx[k / size_t(in_image) * size_t(of_image) + size_t(places[k])] += in[0].at(int64_t(k));
                              return std::vector<std::vector<double>>{dx};
                            };
                            c.dtypes = p.dtypes;
                            c.of_largest = 1;
                            c.no_loop = "the loop's places would be those of other windows; tests/python/test_images.py maps gradients";
                            if (p.large()) c.no_differences = "the smaller cases show it";
                            out.push_back(std::move(c));
                          }
                          return out;
                        }};

TEST(MaxPool2d, PropagatesNaNAndTakesTheFirstOfTies) {
  ir::Graph g;
  const ir::Value y = ops::max_pool2d(g, g.add_input(f32({1, 2, 4, 1})), {});
  g.outputs = {y, {y.node, 1}};
  const auto got = evaluate(g, {Tensor::of<float>({1, 2, 4, 1}, {1, NAN, 7, 7, 9, NAN, 7, 7})});
  EXPECT_TRUE(std::isnan(got[0].at(0)));
  EXPECT_EQ(got[0].at(1), 7);
  EXPECT_EQ(got[1].values(), (std::vector<double>{1, 2}));
}

TEST(MaxPool2d, RefusesWindowsOutsideOfTheImage) {
  auto refused = [](Shape x, MaxPool2dAttrs a) {
    ir::Graph g;
    const ir::Value in = g.add_input(f32(x));
    try {
      ops::max_pool2d(g, in, a);
    } catch (const Error& e) {
      return e.parts.what.starts_with("max_pool2d: ");
    }
    return false;
  };
  EXPECT_TRUE(refused({1, 4, 4, 1}, {.padding = Padding::given, .pads = {2, 0, 0, 0}}));
  EXPECT_TRUE(refused({1, 4, 4, 1}, {.window = {0, 1}}));
  EXPECT_TRUE(refused({1, 4, 4, 1}, {.window = {INT64_MAX, 1}}));
  EXPECT_TRUE(refused({1, 4, 4, 1}, {.window = {5, 1}}));
  EXPECT_TRUE(refused({1, 4, 4, 1}, {.strides = {1, 0}}));
  EXPECT_TRUE(refused({4, 4}, {}));
}

}  // namespace
}  // namespace lamina::tests
