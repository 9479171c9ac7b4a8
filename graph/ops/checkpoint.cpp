// checkpoint(captures...) [region]: a region that is recomputed for its gradient. after(x, y): x, but not before y is computed.
#include "graph/ops/batching.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/region_checks.h"
#include "kernels/copy.h"

namespace lamina::ops {
namespace {

constexpr const char* kCheckpointName = "checkpoint";

std::vector<TensorType> infer_checkpoint(const ir::InferCall& call) {
  require_region_inputs(kCheckpointName, "region", *call.regions[0], call.in);
  return types_of(*call.regions[0], call.regions[0]->outputs);
}

// The gradient recomputes the region from inputs that exist only once the first cotangent does. So the two runs cannot be merged, and the
// second is not computed early.
std::vector<Value> vjp_checkpoint(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const Graph& body = *call.regions[0];
  std::vector<uint8_t> wanted = floating(types_of(body, body.inputs));
  const ir::GraphRef gradient = transforms_of(kCheckpointName, call.transforms).gradient(body, wanted);
  Value cotangent;
  for (Value v : call.cotangents)
    if (!cotangent.valid()) cotangent = v;
  std::vector<Value> inputs;
  const std::vector<uint8_t> used = used_inputs(*gradient);
  for (size_t i = 0; i < call.inputs.size(); ++i) inputs.push_back(used[i] ? after(g, call.inputs[i], cotangent) : call.inputs[i]);
  add_cotangents(call, 0, call.results.size(), inputs);
  const std::vector<Value> gradients = inline_region(g, *gradient, inputs);
  return spread(gradients, wanted, call.inputs.size());
}

std::vector<ir::Batched> batch_checkpoint(const ir::BatchCall& call) {
  std::vector<uint8_t> in, out(call.regions[0]->outputs.size());
  std::vector<Value> inputs;
  for (const ir::Batched& b : call.inputs) in.push_back(b.batched), inputs.push_back(b.value);
  const ir::GraphRef batched = transforms_of(kCheckpointName, call.transforms).batch(*call.regions[0], in, call.size, out);
  const Value first = checkpoint(call.graph, std::move(inputs), batched);
  return batched_from(first, out);
}

std::vector<Value> decompose_checkpoint(Graph& g, const ir::AttrsBase&, std::span<const Value> inputs,
                                        std::span<const ir::GraphRef> regions) {
  return inline_region(g, *regions[0], inputs);
}

std::vector<TensorType> infer_after(const ir::InferCall& call) { return {call.in[0]}; }
std::vector<Value> vjp_after(const ir::VjpCall& call) { return {call.cotangents[0], Value{}}; }
std::vector<ir::Batched> batch_after(const ir::BatchCall& call) {
  return {{after(call.graph, call.inputs[0].value, call.inputs[1].value), call.inputs[0].batched}};
}
bool alias_after(const ir::AttrsBase&, const View& in, const TensorType&, View& view, int64_t& element_offset) {
  view = in;
  element_offset = 0;
  return true;
}
void copy_first(Stream&, const View& x, const View&, const View& y) { kernels::cpu::copy_elements(x, y); }

std::optional<ir::RowsRule> rows_after(const ir::RowsCall& call) {
  return ir::RowsRule{.in = {call.cuts.begin(), call.cuts.end()}, .out = {call.cuts[0]}};
}

}  // namespace

constinit const ir::OpDef def::checkpoint{
    .name = kCheckpointName,
    .inputs = -1,
    .regions = 1,
    .infer = infer_checkpoint,
    .vjp = vjp_checkpoint,
    .batch = batch_checkpoint,
    .decompose = decompose_checkpoint,
    .no_cpu = "its region's nodes run",
    .no_cuda = "its region's nodes run",
    .doc = "the results of a region whose values are not kept for its gradient but computed again",
};
constinit const ir::OpDef def::after{
    .name = "after",
    .inputs = 2,
    .infer = infer_after,
    .vjp = vjp_after,
    .batch = batch_after,
    .rows = rows_after,
    .cpu = [](const ir::KernelRequest&) { return bind<copy_first>(); },
    .alias = alias_after,
    .strided = true,
    .no_cuda = "it is a view of its first input",
    .doc = "x, which nothing that uses it has before y is computed",
};

}  // namespace lamina::ops
