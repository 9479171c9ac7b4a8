// stop_gradient(x): x, without a gradient.
#include "kernels/copy.h"

#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_stop_gradient(const ir::InferCall& call) { return {call.in[0]}; }

std::vector<Value> vjp_stop_gradient(const ir::VjpCall&) { return {Value{}}; }

std::vector<ir::Batched> batch_stop_gradient(const ir::BatchCall& call) {
  return {{call.graph.add(def::stop_gradient, {call.inputs[0].value}), true}};
}

bool alias_stop_gradient(const ir::AttrsBase&, const View& in, const TensorType&, View& view, int64_t& element_offset) {
  view = in;
  element_offset = 0;
  return true;
}

}  // namespace

constinit const ir::OpDef def::stop_gradient{
    .name = "stop_gradient",
    .inputs = 1,
    .infer = infer_stop_gradient,
    .vjp = vjp_stop_gradient,
    .batch = batch_stop_gradient,
    .rows = rows_elementwise,
    .cpu = [](const ir::KernelRequest&) { return bind<copy<On::cpu>>(); },
    .cuda = [](const ir::KernelRequest&) { return bind<copy<On::gpu>>(); },
    .alias = alias_stop_gradient,
    .strided = true,
    .doc = "x, through which no gradient flows",
};

}  // namespace lamina::ops
