// to_device(x): x on the node's device. Lowering copies values to the devices of their users (graph/compile/lower.h).
#include "kernels/copy.h"

#include <utility>

#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_to_device(const ir::InferCall& call) { return {call.in[0]}; }

// Back to x's device.
std::vector<Value> vjp_to_device(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const auto here = std::exchange(g.place.device, g[call.inputs[0]].device);
  const Value dx = g.add(def::to_device, {call.cotangents[0]});
  g.place.device = here;
  return {dx};
}

std::vector<ir::Batched> batch_to_device(const ir::BatchCall& call) {
  return {{call.graph.add(def::to_device, {call.inputs[0].value}), true}};
}

bool alias_to_device(const ir::AttrsBase&, const View& in, const TensorType&, View& view, int64_t& element_offset) {
  view = in;
  element_offset = 0;
  return true;
}

}  // namespace

constinit const ir::OpDef def::to_device{
    .name = "to_device",
    .inputs = 1,
    .infer = infer_to_device,
    .vjp = vjp_to_device,
    .batch = batch_to_device,
    .rows = rows_elementwise,
    .cpu = [](const ir::KernelRequest&) { return bind<copy<On::cpu>>(); },
    .cuda = [](const ir::KernelRequest&) { return bind<copy<On::gpu>>(); },
    .alias = alias_to_device,
    .strided = true,
    .doc = "x, on the device on which it stands",
};

}  // namespace lamina::ops
