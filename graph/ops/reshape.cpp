// reshape(x, shape): the same elements in row-major order with another shape.
#include "kernels/copy.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_reshape(const ir::InferCall& call) {
  const Shape& shape = ir::attrs_of<ShapeAttrs>(call.attrs).shape;
  const TensorType& in = call.in[0];
  Dim have = size_of(in.shape), want = size_of(shape);
  if (have != want)
    throw Error(ErrorKind::invalid_argument, {.what = cat("reshape: ", in, " does not fit the shape [", text(shape), "]"),
                                              .where = "argument 'shape'",
                                              .why = cat("the input has ", have, " elements, the shape ", want),
                                              .fix = "pass a shape with as many elements, or -1 for one dimension"});
  require_rank("reshape", shape);
  return {{in.dtype, shape}};
}

std::vector<Value> vjp_reshape(const ir::VjpCall& call) {
  return {reshape(call.graph, call.cotangents[0], call.graph.type(call.inputs[0]).shape)};
}

std::vector<ir::Batched> batch_reshape(const ir::BatchCall& call) {
  return {{reshape(call.graph, call.inputs[0].value, with_model_axis(call.size, ir::attrs_of<ShapeAttrs>(call.attrs).shape)), true}};
}

bool alias_reshape(const ir::AttrsBase&, const View& in, const TensorType& out, View& view, int64_t& element_offset) {
  if (!is_contiguous(in)) return false;
  view = contiguous_view(in.data, out);
  element_offset = 0;
  return true;
}

template <On on>
void copy_rows(Stream& stream, const View& x, const View& y) {
  View as_x = x;  // y's elements in x's shape
  as_x.data = y.data;
  for (int64_t i = x.rank - 1, stride = 1; i >= 0; stride *= x.shape[i--]) as_x.strides[i] = stride;
  copy<on>(stream, x, as_x);
}

}  // namespace

constinit const ir::OpDef def::reshape{
    .name = "reshape",
    .inputs = 1,
    .parse_attrs = ir::Attrs<ShapeAttrs>::parse,
    .infer = infer_reshape,
    .vjp = vjp_reshape,
    .batch = batch_reshape,
    .cpu = [](const ir::KernelRequest&) { return bind<copy_rows<On::cpu>>(); },
    .cuda = [](const ir::KernelRequest&) { return bind<copy_rows<On::gpu>>(); },
    .alias = alias_reshape,
    .strided = true,
    .doc = "The same elements in another shape; one dimension may be -1: it is what remains",
};

}  // namespace lamina::ops
