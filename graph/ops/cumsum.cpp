// cumsum(x, axis, reverse, exclusive): cumulative sums along one axis.
#include "kernels/cumsum.h"

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_cumsum(const ir::InferCall& call) {
  const TensorType& in = call.in[0];
  axis_of("cumsum", ir::attrs_of<CumsumAttrs>(call.attrs).axis, in);
  return {{in.dtype == DType::boolean ? DType::i64 : in.dtype, in.shape}};
}

// An element contributes to all later sums, so its gradient is dy's cumulative sum from the other end.
std::vector<Value> vjp_cumsum(const ir::VjpCall& call) {
  if (!call.cotangents[0].valid()) return {Value{}};
  const auto& attrs = ir::attrs_of<CumsumAttrs>(call.attrs);
  return {cumsum(call.graph, call.cotangents[0], attrs.axis, !attrs.reverse, attrs.exclusive)};
}

std::vector<ir::Batched> batch_cumsum(const ir::BatchCall& call) {
  CumsumAttrs attrs = ir::attrs_of<CumsumAttrs>(call.attrs);
  if (attrs.axis >= 0) ++attrs.axis;
  return {{call.graph.add(def::cumsum, ir::make_attrs(attrs), {call.inputs[0].value}), true}};
}

template <On on>
Kernel kernel_cumsum(const ir::KernelRequest& request) {
  const auto& attrs = ir::attrs_of<CumsumAttrs>(request.attrs);
  return bind<LAMINA_ON(on, cumsum)>(axis_of("cumsum", attrs.axis, request.in[0]), attrs.reverse, attrs.exclusive);
}

std::optional<ir::RowsRule> rows_cumsum(const ir::RowsCall& call) { return rows_beside(call, ir::attrs_of<CumsumAttrs>(call.attrs).axis); }

}  // namespace

constinit const ir::OpDef def::cumsum{
    .name = "cumsum",
    .inputs = 1,
    .parse_attrs = ir::Attrs<CumsumAttrs>::parse,
    .infer = infer_cumsum,
    .vjp = vjp_cumsum,
    .batch = batch_cumsum,
    .rows = rows_cumsum,
    .cpu = kernel_cumsum<On::cpu>,
    .cuda = kernel_cumsum<On::gpu>,
    .doc = "running sums along one axis, from its end when reverse, each without its own element when exclusive; bool sums to i64",
};

}  // namespace lamina::ops
