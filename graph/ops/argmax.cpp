// argmax(x, axis): the index of the first maximum along one axis, as i64.
#include "kernels/argmax.h"

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_argmax(const ir::InferCall& call) {
  const auto& attrs = ir::attrs_of<ArgmaxAttrs>(call.attrs);
  const TensorType& in = call.in[0];
  const size_t axis = size_t(axis_of("argmax", attrs.axis, in));
  if (in.shape[axis] == Dim(0))
    throw Error(ErrorKind::invalid_argument, {.what = cat("argmax: ", in, " has nothing to choose from"),
                                              .where = "argument 'axis'",
                                              .why = cat("dimension ", axis, " is 0, and there is no largest of no elements"),
                                              .fix = "check the size before"});
  TensorType out{DType::i64, in.shape};
  if (attrs.keepdims)
    out.shape[axis] = 1;
  else
    out.shape.erase(out.shape.begin() + int64_t(axis));
  return {out};
}

std::vector<ir::Batched> batch_argmax(const ir::BatchCall& call) {
  ArgmaxAttrs attrs = ir::attrs_of<ArgmaxAttrs>(call.attrs);
  if (attrs.axis >= 0) ++attrs.axis;
  return {{call.graph.add(def::argmax, ir::make_attrs(attrs), {call.inputs[0].value}), true}};
}

template <On on>
Kernel kernel_argmax(const ir::KernelRequest& request) {
  return bind<LAMINA_ON(on, argmax)>(axis_of("argmax", ir::attrs_of<ArgmaxAttrs>(request.attrs).axis, request.in[0]));
}

std::optional<ir::RowsRule> rows_argmax(const ir::RowsCall& call) {
  const auto& a = ir::attrs_of<ArgmaxAttrs>(call.attrs);
  const int axis = axis_of("argmax", a.axis, call.in[0]);
  std::optional<ir::RowsRule> rule = rows_beside(call, axis);
  if (rule && !a.keepdims && rule->out[0].axis > axis) --rule->out[0].axis;
  return call.cuts[0].whole() ? std::nullopt : rule;
}

}  // namespace

constinit const ir::OpDef def::argmax{
    .name = "argmax",
    .inputs = 1,
    .parse_attrs = ir::Attrs<ArgmaxAttrs>::parse,
    .infer = infer_argmax,
    .batch = batch_argmax,
    .rows = rows_argmax,
    .cpu = kernel_argmax<On::cpu>,
    .cuda = kernel_argmax<On::gpu>,
    .strided = true,
    .no_vjp = "an index does not change smoothly",
    .doc = "The int64 index of the first largest element along an axis; of the first NaN, if there is one",
};

}  // namespace lamina::ops
