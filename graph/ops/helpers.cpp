// Functions of ops.h that add several nodes.
#include "graph/ops/ops.h"

namespace lamina::ops {

Value full(Graph& g, const TensorType& type, double value) { return broadcast_to(g, scalar(g, type.dtype, value), type.shape); }

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
