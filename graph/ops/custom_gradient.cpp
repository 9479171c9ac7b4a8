// custom_gradient(inputs..., captures...) [forward] [backward]: a region whose gradient is another region.
#include "graph/ops/batching.h"
#include "graph/ops/region_checks.h"

namespace lamina::ops {
namespace {

constexpr const char* kCustomGradientName = "custom_gradient";

[[noreturn]] void refuse_custom_gradient(std::string what, std::string why) {
  throw Error(ErrorKind::invalid_argument, {.what = cat(kCustomGradientName, ": ", what), .where = "", .why = std::move(why), .fix = ""});
}

std::vector<TensorType> infer_custom_gradient(const ir::InferCall& call) {
  const int64_t inputs = ir::attrs_of<CustomGradientAttrs>(call.attrs).inputs;
  const Graph &forward = *call.regions[0], &backward = *call.regions[1];
  if (inputs < 0 || inputs > int64_t(call.in.size()))
    refuse_custom_gradient(cat("it has ", call.in.size(), " inputs"), cat(inputs, " have gradients"));
  require_region_inputs(kCustomGradientName, "region", forward, call.in);
  const std::vector<TensorType> results = types_of(forward, forward.outputs);
  std::vector<TensorType> in(call.in.begin(), call.in.end());
  for (const TensorType& t : results)
    if (has_gradients(t.dtype)) in.push_back(t);
  require_region_inputs(kCustomGradientName, "gradient", backward, in);
  if (int64_t(backward.outputs.size()) != inputs)
    refuse_custom_gradient(cat("the gradient gives ", backward.outputs.size(), " values"), cat("there are ", inputs, " inputs"));
  for (int64_t i = 0; i < inputs; ++i)
    if (const TensorType t = backward.type(backward.outputs[size_t(i)]); !(t == call.in[size_t(i)]))
      refuse_custom_gradient(cat("the gradient for input ", i, " is ", t), cat("the input is ", call.in[size_t(i)]));
  return results;
}

std::vector<Value> vjp_custom_gradient(const ir::VjpCall& call) {
  std::vector<Value> in(call.inputs.begin(), call.inputs.end());
  add_cotangents(call, 0, call.results.size(), in);
  std::vector<Value> out = inline_region(call.graph, *call.regions[1], in);
  out.resize(call.inputs.size());
  return out;
}

// All values get the model axis, so that the gradient's region knows that all have it.
std::vector<ir::Batched> batch_custom_gradient(const ir::BatchCall& call) {
  const auto& transforms = transforms_of(kCustomGradientName, call.transforms);
  std::vector<uint8_t> in(call.regions[0]->inputs.size(), true), out(call.regions[0]->outputs.size(), true);
  ir::GraphRef forward = transforms.batch(*call.regions[0], in, call.size, out);
  in.assign(call.regions[1]->inputs.size(), true);
  std::vector<uint8_t> gradients(call.regions[1]->outputs.size(), true);
  ir::GraphRef backward = transforms.batch(*call.regions[1], in, call.size, gradients);
  const Value first = custom_gradient(call.graph, with_model_axes(call.graph, call.inputs, call.size),
                                      ir::attrs_of<CustomGradientAttrs>(call.attrs).inputs, std::move(forward), std::move(backward));
  return batched_from(first, out);
}

std::vector<Value> decompose_custom_gradient(Graph& g, const ir::AttrsBase&, std::span<const Value> in,
                                             std::span<const ir::GraphRef> regions) {
  return inline_region(g, *regions[0], in);
}

}  // namespace

constinit const ir::OpDef def::custom_gradient{
    .name = kCustomGradientName,
    .inputs = -1,
    .regions = 2,
    .parse_attrs = ir::Attrs<CustomGradientAttrs>::parse,
    .infer = infer_custom_gradient,
    .vjp = vjp_custom_gradient,
    .batch = batch_custom_gradient,
    .decompose = decompose_custom_gradient,
    .no_cuda = "it is the nodes of its region",
    .doc = "the results of a region, whose gradient is another region",
};

}  // namespace lamina::ops
