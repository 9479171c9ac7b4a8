// fused_elementwise: a group of elementwise nodes as one kernel. Its region is the group as a graph of its own.
#include "graph/ops/ops.h"
#include "graph/ops/region_code.h"

namespace lamina::ops {
namespace {

constexpr const char* kFusedElementwiseName = "fused_elementwise";

[[noreturn]] void malformed(const std::string& why) {
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(kFusedElementwiseName, ": the region does not fit the node"), .where = "", .why = why, .fix = ""});
}

std::vector<TensorType> infer_fused_elementwise(const ir::InferCall& call) {
  const ir::Graph& region = *call.regions[0];
  if (region.inputs.size() != call.in.size()) malformed(cat("the region has ", region.inputs.size(), " inputs, the node ", call.in.size()));
  if (region.outputs.empty()) malformed("the region has no outputs");
  std::vector<TensorType> types;
  for (Value v : region.outputs) types.push_back(region.type(v));
  for (const TensorType& t : types)
    if (t.shape != types[0].shape) malformed(cat("the outputs are ", types[0], " and ", t));
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (call.in[i].dtype != region.type(region.inputs[i]).dtype || call.in[i].shape != region.type(region.inputs[i]).shape)
      malformed(cat("input ", i, " is ", call.in[i], " and inside ", region.type(region.inputs[i])));
    if (broadcast(call.in[i].shape, types[0].shape) != types[0].shape)
      malformed(cat("input ", i, ", ", call.in[i], ", does not broadcast to ", types[0]));
  }
  code_of(kFusedElementwiseName, region);
  return types;
}

template <On on>
Kernel kernel_fused_elementwise(const ir::KernelRequest& request) {
  return elementwise_kernel(on, code_of(kFusedElementwiseName, *request.regions[0]));
}

bool step_fused_elementwise(const ir::KernelRequest& request, ir::SectionStep& step) {
  return elementwise_step(request, code_of(kFusedElementwiseName, *request.regions[0]), step);
}

// The group's nodes, each by itself.
std::vector<Value> decompose_fused_elementwise(Graph& g, const ir::AttrsBase&, std::span<const Value> inputs,
                                               std::span<const ir::GraphRef> regions) {
  return inline_region(g, *regions[0], inputs);
}

}  // namespace

constinit const ir::OpDef def::fused_elementwise{
    .name = kFusedElementwiseName,
    .inputs = -1,
    .regions = 1,
    .infer = infer_fused_elementwise,
    .cpu = kernel_fused_elementwise<On::cpu>,
    .cuda = kernel_fused_elementwise<On::gpu>,
    .section = step_fused_elementwise,
    .decompose = decompose_fused_elementwise,
    .strided = true,
    .in_place = true,
    .no_vjp = "made after differentiation by a pass",
    .no_batch = "made after batching by a pass",
    .doc = "a group of elementwise ops as one kernel, made by a pass",
};

}  // namespace lamina::ops
