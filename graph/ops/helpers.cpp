// Functions of ops.h that add several nodes.
#include "graph/ops/ops.h"

namespace lamina::ops {

namespace {
Shape pairs_of(Shape shape) {
  shape.emplace_back(2);
  return shape;
}
}  // namespace

Value full(Graph& g, const TensorType& type, double value) {
  const Value one = scalar(g, type.dtype, value);
  return is_complex(type.dtype) ? as_complex(g, broadcast_to(g, as_real(g, one), pairs_of(type.shape))) : broadcast_to(g, one, type.shape);
}

Value sum_of_gradients(Graph& g, Value a, Value b) {
  return is_complex(g.type(a).dtype) ? as_complex(g, add(g, as_real(g, a), as_real(g, b))) : add(g, a, b);
}

Value select(Graph& g, Value condition, Value a, Value b) {
  const DType dtype = g.type(a).dtype;
  if (is_complex(dtype)) {
    Shape shape = g.type(condition).shape;
    shape.emplace_back(1);
    return as_complex(g, where(g, reshape(g, condition, shape), as_real(g, a), as_real(g, b)));
  }
  if (!is_rare(dtype)) return where(g, condition, a, b);
  return astype(g, where(g, condition, astype(g, a, DType::i64), astype(g, b, DType::i64)), dtype);
}

Value sum_to(Graph& g, Value x, const Shape& shape) {
  const Shape from = g.type(x).shape;
  if (from == shape) return x;
  const size_t added = from.size() - shape.size();
  std::vector<int64_t> axes;
  bool stretched = false;
  for (size_t a = 0; a < from.size(); ++a) {
    if (a < added)
      axes.push_back(int64_t(a));
    else if (from[a] != shape[a - added])
      axes.push_back(int64_t(a)), stretched = true;
  }
  if (added == 0) return sum(g, x, axes, true);
  return stretched ? reshape(g, sum(g, x, axes), shape) : sum(g, x, axes);
}

}  // namespace lamina::ops
