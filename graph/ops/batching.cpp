#include "graph/ops/batching.h"

#include <algorithm>

namespace lamina::ops {

Value with_model_axis(Graph& g, const ir::Batched& in, Dim size) {
  return in.batched ? in.value : broadcast_to(g, in.value, with_model_axis(size, g.type(in.value).shape));
}

namespace {
// Whether draws of the region, or of one inside, take their numbers from a value: it, or it with a counter moved on, is their state.
bool is_key(const Graph& region, Value key) {
  const TensorType type = region.type(key);
  if (type.dtype != DType::i64 || type.rank() == 0 || type.shape.back() != Dim(2)) return false;
  std::vector<Value> states{key};
  const auto is_state = [&](Value v) { return std::find(states.begin(), states.end(), v) != states.end(); };
  for (int n = 0; n < region.size(); ++n) {
    const ir::Node& node = region[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_state(node.inputs[i])) continue;
      if (i + 1 == node.inputs.size() && node.op->draws) return true;
      if (node.op == &def::add) states.push_back({n, 0});
      for (const ir::GraphRef& inner : node.regions) {
        const size_t skipped = node.op == &def::cond ? 1 : 0;  // its condition
        if (i >= skipped && i - skipped < inner->inputs.size() && is_key(*inner, inner->inputs[i - skipped])) return true;
      }
    }
  }
  return false;
}
}  // namespace

Value with_own_models(Graph& g, const ir::Batched& in, Dim size, const Graph& region, Value input) {
  if (in.batched || !is_key(region, input)) return with_model_axis(g, in, size);
  constexpr double kApart = 3.0 * (int64_t{1} << 61);  // a counter that no other draw from the key uses
  TensorType type{DType::i64, g.type(in.value).shape};
  const int outer = int(type.rank()) - 1;
  const Value second = iota(g, {DType::i64, {2}}, 0), first = sub(g, scalar(g, DType::i64, 1), second);
  const Value state = add(g, in.value, mul(g, second, scalar(g, DType::i64, kApart)));
  type.shape.insert(type.shape.begin() + outer, size);
  const Value bits = random_integers(g, state, type, 0, int64_t{1} << 31);
  const Value places = add(g, mul(g, first, scalar(g, DType::i64, double((int64_t{1} << 31) - 1))), scalar(g, DType::i64, 1));
  const Value seeds = sum(g, mul(g, bits, places), std::vector<int64_t>{outer + 1}, true);
  return move_axis(g, mul(g, seeds, first), outer, 0);
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
