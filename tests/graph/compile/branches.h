// Graphs with independent branches.
#pragma once
#include "graph/ops/image.h"
#include "graph/ops/ops.h"
#include "runtime/exec/order.h"

namespace lamina::tests {

// Two branches of two convolutions each, added together. Each convolution has 29 M multiply-adds at the default size.
inline ir::Graph two_branches(int64_t images = 1, int64_t side = 28, int64_t channels = 64) {
  ir::Graph g;
  const ir::Value x = g.add_input({DType::f32, {images, side, side, channels}});
  ops::Conv2dAttrs same;
  same.padding = ops::Padding::same;
  const auto branch = [&] {
    ir::Value y = x;
    for (int layer = 0; layer < 2; ++layer) y = ops::conv2d(g, y, g.add_input({DType::f32, {3, 3, channels, channels}}), same);
    return y;
  };
  const ir::Value a = branch(), b = branch();
  g.outputs = {ops::add(g, a, b)};
  return g;
}

using exec::what_is_unordered;

}  // namespace lamina::tests
