// astype(x, dtype) for every pair of dtypes. Floats truncate to integers: NaN becomes 0, values out of range the nearest bound. Integers
// wrap; bool is x != 0. Every pair rounds once.
#include "graph/ops/ops.h"
#include "graph/ops/region_code.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

using kernels::ScalarOp;

std::vector<TensorType> infer_astype(const ir::InferCall& call) {
  const DType dtype = ir::attrs_of<DTypeAttrs>(call.attrs).dtype;
  byte_size({dtype, {}});  // throws for what is no dtype
  return {{dtype, call.in[0].shape}};
}

// Only between floating types; other conversions have no gradient.
std::vector<Value> vjp_astype(const ir::VjpCall& call) {
  const DType from = call.graph.type(call.inputs[0]).dtype;
  if (!call.cotangents[0].valid() || !is_floating(from) || !is_floating(call.graph.type(call.results[0]).dtype)) return {Value{}};
  return {astype(call.graph, call.cotangents[0], from)};
}

std::vector<ir::Batched> batch_astype(const ir::BatchCall& call) {
  return {{call.graph.add(def::astype, ir::make_attrs(ir::attrs_of<DTypeAttrs>(call.attrs)), {call.inputs[0].value}), true}};
}

template <On on>
Kernel kernel_astype(const ir::KernelRequest& request) {
  return elementwise_kernel(on, code_of(ScalarOp::cast, request.in, request.out[0].dtype));
}

bool step_astype(const ir::KernelRequest& request, ir::SectionStep& step) {
  return elementwise_step(request, code_of(ScalarOp::cast, request.in, request.out[0].dtype), step);
}

}  // namespace

constinit const ir::OpDef def::astype{
    .name = "astype",
    .inputs = 1,
    .parse_attrs = ir::Attrs<DTypeAttrs>::parse,
    .infer = infer_astype,
    .vjp = vjp_astype,
    .batch = batch_astype,
    .rows = rows_elementwise,
    .cpu = kernel_astype<On::cpu>,
    .cuda = kernel_astype<On::gpu>,
    .section = step_astype,
    .scalar_op = int(ScalarOp::cast),
    .strided = true,
    .in_place = true,
    .doc =
        "x converted to a dtype: a fraction is cut off (NaN gives 0, out of range the nearest end), integers wrap, bool is whether the "
        "number is not 0",
};

}  // namespace lamina::ops
