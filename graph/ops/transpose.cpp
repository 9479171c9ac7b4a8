// transpose(x, axes): axis i of the result is axis axes[i] of x.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

const std::vector<int64_t>& axes_of(const ir::AttrsBase& attrs) { return ir::attrs_of<TransposeAttrs>(attrs).axes; }

std::vector<TensorType> infer_transpose(const ir::InferCall& call) {
  const TensorType& in = call.in[0];
  const auto& axes = axes_of(call.attrs);
  std::vector<bool> seen(in.rank());
  bool permutation = axes.size() == in.rank();
  for (size_t i = 0; permutation && i < axes.size(); ++i) {
    permutation = axes[i] >= 0 && axes[i] < int64_t(in.rank()) && !seen[size_t(axes[i])];
    if (permutation) seen[size_t(axes[i])] = true;
  }
  if (!permutation)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("transpose: axes ", ir::attr_text(axes), " do not fit ", in),
                 .where = "argument 'axes'",
                 .why = "each axis of the input must be named once, counted from 0",
                 .fix = in.rank() ? cat("pass a permutation of 0 to ", in.rank() - 1) : "a scalar has no axes"});
  TensorType out{in.dtype, {}};
  for (int64_t axis : axes) out.shape.push_back(in.shape[size_t(axis)]);
  return {out};
}

std::vector<Value> vjp_transpose(const ir::VjpCall& call) {
  const auto& axes = axes_of(call.attrs);
  std::vector<int64_t> inverse(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) inverse[size_t(axes[i])] = int64_t(i);
  return {transpose(call.graph, call.cotangents[0], std::move(inverse))};
}

std::vector<ir::Batched> batch_transpose(const ir::BatchCall& call) {
  std::vector<int64_t> axes{0};
  for (int64_t axis : axes_of(call.attrs)) axes.push_back(axis + 1);
  return {{transpose(call.graph, call.inputs[0].value, std::move(axes)), true}};
}

bool alias_transpose(const ir::AttrsBase& attrs, const View& in, const TensorType&, View& view, int64_t& element_offset) {
  view = in;
  const auto& axes = axes_of(attrs);
  for (size_t i = 0; i < axes.size(); ++i) view.shape[i] = in.shape[axes[i]], view.strides[i] = in.strides[axes[i]];
  element_offset = 0;
  return true;
}

std::optional<ir::RowsRule> rows_transpose(const ir::RowsCall& call) {
  const std::vector<int64_t>& axes = ir::attrs_of<TransposeAttrs>(call.attrs).axes;
  ir::Cut in = call.cuts[0], out = call.wanted;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int from = int(axes[i] < 0 ? axes[i] + int64_t(axes.size()) : axes[i]);
    if (in.whole() && out.axis == int(i)) in = {from, out.each};
    if (from == in.axis) out = {int(i), in.each};
  }
  if (in.whole()) return {};
  return ir::RowsRule{.in = {in}, .out = {out}};
}

}  // namespace

constinit const ir::OpDef def::transpose{
    .name = "transpose",
    .inputs = 1,
    .parse_attrs = ir::Attrs<TransposeAttrs>::parse,
    .infer = infer_transpose,
    .vjp = vjp_transpose,
    .batch = batch_transpose,
    .rows = rows_transpose,
    .alias = alias_transpose,
    .no_cpu = "its result is its input seen differently",
    .no_cuda = "its result is its input seen differently",
    .doc = "The axes in another order; reversed without one",
};

}  // namespace lamina::ops
