// Makers of random nodes of image ops.
#pragma once
#include "graph/ops/ops.h"
#include "tests/graph/elementwise_makers.h"

namespace lamina::tests {

class ImageMakers : protected ElementwiseMakers {
 protected:
  using ElementwiseMakers::ElementwiseMakers;

  // Images [2, rows, n, 1] or [1, rows, n, 2] made from matrices; other values serve as filters.
  Value image() {
    const Value x = any([](const TensorType& t) { return is_floating(t.dtype) && t.rank() == 2; });
    const Shape s = type(x).shape;
    return chance(0.5) ? ops::reshape(g(), x, {1, s[0], s[1], 1})
                       : ops::reshape(g(), ops::concat(g(), {x, x}, chance(0.5) ? 0 : 1),
                                      chance(0.5) ? Shape{1, s[0], s[1], 2} : Shape{2, s[0], s[1], 1});
  }
  Value some(const TensorType& t) { return g().add_constant(ir::Literal::from(t, random_tensor(t).raw())); }
  ops::Conv2dAttrs walk(Dim channels) {
    const int64_t groups = chance(0.3) ? channels.number() : 1;
    return {.strides = {number(1, 2), number(1, 2)}, .padding = ops::Padding::same, .dilation = {1, number(1, 2)}, .groups = groups};
  }
  void conv2d() {
    const Value x = image();
    const Dim channels = type(x).shape[3];
    const ops::Conv2dAttrs attrs = walk(channels);
    const Value w = some({type(x).dtype, {2, 3, Dim(channels.number() / attrs.groups), 2}});
    if (!run_new_nodes()) return reject();
    const Value y = ops::conv2d(g(), x, w, attrs);
    switch (number(0, 2)) {
      case 0: return give(y);
      case 1: return give(ops::conv2d_grad_input(g(), y, w, type(x).shape, attrs));
      default: return give(ops::conv2d_grad_filter(g(), x, y, type(w).shape, attrs));
    }
  }
  void max_pool2d() {
    const Value x = image();
    if (type(x).shape[3] != Dim(1) || !run_new_nodes()) return reject();
    std::vector<double> all = tensor(x).values();
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i] - all[i - 1] < kMargin) reject();
    const ops::MaxPool2dAttrs attrs{.window = {2, 2}, .strides = {1, number(1, 2)}, .padding = ops::Padding::same};
    const Value y = ops::max_pool2d(g(), x, attrs);
    if (chance(0.6)) return give(ops::max_pool2d_grad(g(), y, {y.node, 1}, type(x).shape, attrs));
    give(y);
    if (chance(0.5)) give({y.node, 1});
  }
};

}  // namespace lamina::tests
