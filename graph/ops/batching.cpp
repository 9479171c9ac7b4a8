#include "graph/ops/batching.h"

namespace lamina::ops {

Value with_model_axis(Graph& g, const ir::Batched& in, Dim size) {
  return in.batched ? in.value : broadcast_to(g, in.value, with_model_axis(size, g.type(in.value).shape));
}

Value lift(Graph& g, const ir::Batched& in, size_t rank) {
  if (!in.batched) return in.value;
  Shape shape = g.type(in.value).shape;
  if (rank + 1 > shape.size()) shape.insert(shape.begin() + 1, rank + 1 - shape.size(), Dim(1));
  return reshape(g, in.value, std::move(shape));
}

std::vector<Value> with_model_axes(Graph& g, std::span<const ir::Batched> in, Dim size) {
  std::vector<Value> out;
  for (const ir::Batched& b : in) out.push_back(with_model_axis(g, b, size));
  return out;
}

Shape with_model_axis(Dim size, const Shape& shape) {
  Shape out{size};
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

Value move_axis(Graph& g, Value x, int from, int to) {
  if (from == to) return x;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < int64_t(g.type(x).rank()); ++i)
    if (i != from) axes.push_back(i);
  axes.insert(axes.begin() + to, from);
  return transpose(g, x, std::move(axes));
}

Value models_as_images(Graph& g, Value x) {
  const Shape s = g.type(x).shape;
  return reshape(g, x, {s[0] * s[1], s[2], s[3], s[4]});
}

}  // namespace lamina::ops
