// conv2d and its gradients, against loops.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ops::Conv2dAttrs;
using ops::Padding;

// Calls f(index in x, index in w, index in y) for every product of a convolution.
template <class F>
void each_product(const Shape& x, const Shape& w, const Shape& y, const Conv2dAttrs& a, F f) {
  const std::vector<int64_t> in = numbers(x), window = numbers(w), out = numbers(y);
  int64_t before[2];
  for (int i : {0, 1}) {
    before[i] = a.padding == Padding::given ? a.pads[size_t(2 * i)] : 0;
    if (a.padding == Padding::same)
      before[i] = std::max<int64_t>(0, (out[size_t(1 + i)] - 1) * a.strides[size_t(i)] + (window[size_t(i)] - 1) * a.dilation[size_t(i)] +
                                           1 - in[size_t(1 + i)]) /
                  2;
  }
  const int64_t depth = window[2], per_group = out[3] / a.groups;
  each_index(y, [&](const Index& at) {
    for (int64_t r = 0; r < window[0]; ++r)
      for (int64_t c = 0; c < window[1]; ++c) {
        const int64_t row = at[1] * a.strides[0] + r * a.dilation[0] - before[0],
                      column = at[2] * a.strides[1] + c * a.dilation[1] - before[1];
        if (row < 0 || row >= in[1] || column < 0 || column >= in[2]) continue;
        for (int64_t d = 0; d < depth; ++d)
          f(place(x, {at[0], row, column, at[3] / per_group * depth + d}), place(w, {r, c, d, at[3]}), place(y, at));
      }
  });
}

enum class Which { forward, input, filter };

Reference reference_of(Which which, Shape x, Shape w, Shape y, Conv2dAttrs a) {
  return [=](const std::vector<Tensor>& in) {
    const Shape& shape = which == Which::forward ? y : which == Which::input ? x : w;
    std::vector<double> out(size_t(size_of(shape).number()));
    each_product(x, w, y, a, [&](int64_t px, int64_t pw, int64_t py) {
      if (which == Which::forward) out[size_t(py)] += in[0].at(px) * in[1].at(pw);
      if (which == Which::input) out[size_t(px)] += in[0].at(py) * in[1].at(pw);
      if (which == Which::filter) out[size_t(pw)] += in[0].at(px) * in[1].at(py);
    });
    return std::vector<std::vector<double>>{out};
  };
}

std::vector<OpCase> cases_of(Which which) {
  std::vector<OpCase> out;
  auto add = [&](const char* name, Shape x, Shape w, Conv2dAttrs a, std::vector<DType> dtypes = {DType::f32}, bool large = false) {
    ir::Graph g;
    const Shape y = g.type(ops::conv2d(g, g.add_input(f32(x)), g.add_input(f32(w)), a)).shape;
    OpCase c{.name = name};
    c.in = which == Which::forward ? std::vector<CaseInput>{{f32(x)}, {f32(w)}}
           : which == Which::input ? std::vector<CaseInput>{{f32(y)}, {f32(w)}}
                                   : std::vector<CaseInput>{{f32(x)}, {f32(y)}};
    if (which != Which::forward) a.shape = which == Which::input ? x : w;
    c.attrs = ir::make_attrs(a);
    c.reference = reference_of(which, x, w, y, a);
    c.dtypes = std::move(dtypes);
    c.ulps = large ? 64 : 16, c.of_largest = 1;
    c.isas_differ = "a multiplication and an addition are one operation where the machine has it";
    if (large) c.no_differences = "the smaller cases show it";
    out.push_back(std::move(c));
  };
  const Conv2dAttrs plain, same{.padding = Padding::same};
  add("3x3 inside", {2, 5, 4, 3}, {3, 3, 3, 2}, plain, kFloating);
  add("3x3 around the edges", {2, 4, 3, 2}, {3, 3, 2, 4}, same, kFloating);
  add("one pixel", {2, 3, 2, 5}, {1, 1, 5, 3}, plain, kFloating);
  add("strides", {1, 7, 6, 2}, {3, 2, 2, 3}, {.strides = {2, 3}});
  add("strides around the edges", {2, 5, 6, 1}, {3, 3, 1, 2}, {.strides = {2, 2}, .padding = Padding::same});
  add("strides wider than the window", {1, 7, 7, 2}, {2, 1, 2, 2}, {.strides = {3, 4}, .padding = Padding::same});
  add("dilation", {1, 7, 6, 2}, {3, 2, 2, 2}, {.padding = Padding::same, .dilation = {2, 3}});
  add("given padding", {1, 4, 4, 2}, {3, 3, 2, 2}, {.padding = Padding::given, .pads = {2, 0, 1, 3}});
  add("more padding than image", {1, 2, 2, 1}, {2, 2, 1, 2}, {.padding = Padding::given, .pads = {3, 3, 3, 3}});
  add("groups", {2, 4, 4, 4}, {3, 3, 2, 6}, {.padding = Padding::same, .groups = 2}, kFloating);
  add("a filter per channel", {2, 5, 4, 3}, {3, 3, 1, 3}, {.strides = {1, 2}, .padding = Padding::same, .groups = 3}, kFloating);
  add("two filters per channel", {1, 4, 4, 2}, {3, 2, 1, 4}, {.groups = 2});
  add("no images", {0, 4, 4, 2}, {3, 3, 2, 2}, same);
  add("no channels", {2, 3, 3, 0}, {2, 2, 0, 2}, plain);
  add("no filters", {2, 3, 3, 2}, {2, 2, 2, 0}, plain);
  add("as many threads as there are", {3, 20, 18, 16}, {3, 3, 16, 24}, same, {DType::f32, DType::bf16}, true);
  add("one pixel, large", {2, 24, 24, 32}, {1, 1, 32, 48}, plain, {DType::f32}, true);
  add("a filter per channel, large", {2, 24, 24, 48}, {3, 3, 1, 48}, {.padding = Padding::same, .groups = 48}, {DType::f32}, true);
  add("groups, large", {2, 17, 15, 24}, {5, 3, 8, 48}, {.strides = {2, 1}, .padding = Padding::same, .groups = 3}, {DType::f32}, true);
  return out;
}

const OpCases forward_cases{"conv2d", [] { return cases_of(Which::forward); }};
const OpCases input_cases{"conv2d_grad_input", [] { return cases_of(Which::input); }};
const OpCases filter_cases{"conv2d_grad_filter", [] { return cases_of(Which::filter); }};

std::string refusal(TensorType x, TensorType w, Conv2dAttrs a) {
  ir::Graph g;
  try {
    ops::conv2d(g, g.add_input(x), g.add_input(w), a);
  } catch (const Error& e) {
    return e.parts.what + " | " + e.parts.why;
  }
  return "taken";
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  const Conv2dAttrs plain;
  EXPECT_EQ(refusal(f32({2, 5, 5, 3}), f32({3, 3, 4, 2}), plain),
            "conv2d: f32[2,5,5,3] and f32[3,3,4,2] do not fit | x has 3 channels, the filters take 4");
  EXPECT_EQ(refusal(f32({2, 5, 3}), f32({3, 3, 3, 2}), plain),
            "conv2d: f32[2,5,3] is not a batch of images | images are [n, height, width, channels]");
  EXPECT_EQ(refusal(f32({2, 5, 5, 3}), {DType::f64, {3, 3, 3, 2}}, plain),
            "conv2d: f32[2,5,5,3] and f64[3,3,3,2] have different dtypes | tensors are never converted silently");
  EXPECT_EQ(refusal(f32({2, 2, 5, 3}), f32({3, 3, 3, 2}), plain),
            "conv2d: a window of 3 does not fit the height of f32[2,2,5,3] | there are 2 with the padding");
  EXPECT_EQ(refusal(f32({2, 5, 5, 4}), f32({3, 3, 2, 3}), {.groups = 2}),
            "conv2d: 2 groups do not divide the filters f32[3,3,2,3] | each group has as many filters, the last dimension, as the others");
  for (const Conv2dAttrs& hostile :
       {Conv2dAttrs{.strides = {0, 1}}, Conv2dAttrs{.strides = {1}}, Conv2dAttrs{.strides = {INT64_MAX, 1}},
        Conv2dAttrs{.pads = {-1, 0, 0, 0}}, Conv2dAttrs{.dilation = {1, -2}}, Conv2dAttrs{.groups = 0}, Conv2dAttrs{.groups = -1}})
    EXPECT_NE(refusal(f32({2, 5, 5, 3}), f32({3, 3, 3, 2}), hostile), "taken");
  EXPECT_NE(refusal(i32({2, 5, 5, 3}), i32({3, 3, 3, 2}), plain), "taken");
  EXPECT_NE(refusal(f32({2, 5, 5, 3}), f32({0, 3, 3, 2}), plain), "taken");
}

TEST(Conv2d, KeepsUnknownDimensions) {
  ir::Graph g;
  const ir::Value x = g.add_input(f32({Dim::symbol("n"), Dim::symbol("h"), 8, 3})), w = g.add_input(f32({3, 3, 3, 4}));
  EXPECT_EQ(text(g.type(ops::conv2d(g, x, w, {.padding = Padding::same})).shape), "n,h,8,4");
  EXPECT_EQ(text(g.type(ops::conv2d(g, x, w, {})).shape), "n,-2+h,6,4");
  EXPECT_EQ(g.type(ops::conv2d(g, x, w, {.padding = Padding::given, .pads = {2, 2, 0, 0}})).shape[1], Dim::symbol("h") + Dim(2));
  EXPECT_NE(refusal(f32({1, Dim::symbol("h"), 8, 3}), f32({3, 3, 3, 4}), {.strides = {2, 2}}), "taken");
}

}  // namespace
}  // namespace lamina::tests
