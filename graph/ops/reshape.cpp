// reshape(x, shape): the same elements in row-major order with another shape.
#include "kernels/copy.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_reshape(const ir::InferCall& call) {
  const Shape& shape = ir::attrs_of<ShapeAttrs>(call.attrs).shape;
  const TensorType& in = call.in[0];
  Dim have = size_of(in.shape), want = size_of(shape);
  if (have != want && (have.known() || want.known())) {  // two open sizes are compared when their lengths are known
    size_t differing = 0;
    for (size_t i = 0; i < shape.size() && in.rank() == shape.size(); ++i) differing += in.shape[i] != shape[i];
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("reshape: ", in, " does not fit the shape [", text(shape), "]"),
                 .where = "argument 'shape'",
                 .why = cat("the input has ", have, " elements, the shape ", want,
                            differing == 1 ? "; arguments whose open lengths meet in an op are equally long" : ""),
                 .fix = "pass a shape with as many elements, or -1 for one dimension"});
  }
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

// The axis of `to` that has the rows of `from`: as many elements in front of it, and a multiple of the rows along it.
ir::Cut through_reshape(const Shape& from, ir::Cut cut, const Shape& to, int64_t rows) {
  if (cut.whole()) return {};
  int64_t before = 1, entries = 1, passed = 1;
  for (int a = 0; a < cut.axis; ++a) before *= from[size_t(a)].number();
  for (size_t a = size_t(cut.axis); a < from.size(); ++a) entries *= from[a].number();
  for (size_t a = 0; a < to.size(); passed *= to[a++].number()) {
    if (passed != before || to[a].number() == 0 || to[a].number() % rows != 0) continue;
    const int64_t each = to[a].number() / rows;
    int64_t after = 1;
    for (size_t b = a + 1; b < to.size(); ++b) after *= to[b].number();
    if (each * after * rows == entries) return {int(a), each};
  }
  return {};
}
std::optional<ir::RowsRule> rows_reshape(const ir::RowsCall& call) {
  ir::Cut in = call.cuts[0], out = call.wanted;
  if (in.whole())
    in = through_reshape(call.out[0].shape, out, call.in[0].shape, call.rows);
  else
    out = through_reshape(call.in[0].shape, in, call.out[0].shape, call.rows);
  if (in.whole() || out.whole()) return {};
  return ir::RowsRule{.in = {in}, .out = {out}, .attrs = attrs_with_shape<ShapeAttrs>(call.attrs, out)};
}

}  // namespace

constinit const ir::OpDef def::reshape{
    .name = "reshape",
    .inputs = 1,
    .parse_attrs = ir::Attrs<ShapeAttrs>::parse,
    .infer = infer_reshape,
    .vjp = vjp_reshape,
    .batch = batch_reshape,
    .rows = rows_reshape,
    .cpu = [](const ir::KernelRequest&) { return bind<copy_rows<On::cpu>>(); },
    .cuda = [](const ir::KernelRequest&) { return bind<copy_rows<On::gpu>>(); },
    .alias = alias_reshape,
    .strided = true,
    .doc = "The same elements in another shape; one dimension may be -1: it is what remains",
};

}  // namespace lamina::ops
