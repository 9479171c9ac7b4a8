// broadcast_to(x, shape): x repeated along new leading axes and along axes of length 1.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_broadcast_to(const ir::InferCall& call) {
  const Shape& shape = ir::attrs_of<ShapeAttrs>(call.attrs).shape;
  const TensorType& in = call.in[0];
  bool fits = in.rank() <= shape.size();
  size_t added = fits ? shape.size() - in.rank() : 0;
  for (size_t i = 0; fits && i < in.rank(); ++i) fits = in.shape[i] == shape[added + i] || in.shape[i] == Dim(1);
  if (!fits)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("broadcast_to: ", in, " does not broadcast to [", text(shape), "]"),
                 .where = "argument 'shape'",
                 .why = "counted from the last, each dimension of the input must be 1 or equal that of the shape",
                 .fix = "reshape the input so that the dimensions to repeat are 1"});
  require_rank("broadcast_to", shape);
  return {{in.dtype, shape}};
}

std::vector<Value> vjp_broadcast_to(const ir::VjpCall& call) {
  return {sum_to(call.graph, call.cotangents[0], call.graph.type(call.inputs[0]).shape)};
}

std::vector<ir::Batched> batch_broadcast_to(const ir::BatchCall& call) {
  const Shape& shape = ir::attrs_of<ShapeAttrs>(call.attrs).shape;
  return {{broadcast_to(call.graph, lift(call.graph, call.inputs[0], shape.size()), with_model_axis(call.size, shape)), true}};
}

bool alias_broadcast_to(const ir::AttrsBase&, const View& in, const TensorType& out, View& view, int64_t& element_offset) {
  view = in;
  view.rank = int32_t(out.rank());
  for (int i = 0; i < view.rank; ++i) {
    int axis = i - (view.rank - in.rank);
    view.shape[i] = out.shape[size_t(i)].number();
    view.strides[i] = axis < 0 || in.shape[axis] != view.shape[i] ? 0 : in.strides[axis];
  }
  element_offset = 0;
  return true;
}

std::optional<ir::RowsRule> rows_broadcast_to(const ir::RowsCall& call) {
  std::optional<ir::RowsRule> rule = rows_elementwise(call);
  if (rule) rule->attrs = attrs_with_shape<ShapeAttrs>(call.attrs, rule->out[0]);
  return rule;
}

}  // namespace

constinit const ir::OpDef def::broadcast_to{
    .name = "broadcast_to",
    .inputs = 1,
    .parse_attrs = ir::Attrs<ShapeAttrs>::parse,
    .infer = infer_broadcast_to,
    .vjp = vjp_broadcast_to,
    .batch = batch_broadcast_to,
    .rows = rows_broadcast_to,
    .alias = alias_broadcast_to,
    .no_cpu = "its result is its input seen differently",
    .no_cuda = "its result is its input seen differently",
    .doc = "x repeated along new axes and axes of length 1",
};

}  // namespace lamina::ops
