// with_length(length, inputs...) [region]: a region that is planned once its length is known.
#include "graph/ops/batching.h"
#include "graph/ops/region_checks.h"

namespace lamina::ops {
namespace {

constexpr const char* kWithLengthName = "with_length";

std::vector<TensorType> infer_with_length(const ir::InferCall& call) {
  if (call.in.empty() || !(call.in[0] == TensorType{DType::i64, {}}))
    throw Error(ErrorKind::invalid_argument,
                {.what = "with_length: it has no length", .where = "", .why = "its first input is i64[]", .fix = ""});
  const Graph& region = *call.regions[0];
  require_region_inputs(kWithLengthName, "region", region, call.in.subspan(1));
  std::vector<TensorType> out = types_of(region, region.outputs);
  const DimBindings bindings{{ir::attrs_of<LengthAttrs>(call.attrs).symbol, 1}};
  for (const TensorType& t : out)
    if (substitute(t.shape, bindings) != t.shape)
      throw Error(
          ErrorKind::invalid_argument,
          {.what = cat("with_length: a result is ", t), .where = "", .why = "its length is known inside of the region only", .fix = ""});
  return out;
}

std::vector<Value> vjp_with_length(const ir::VjpCall& call) {
  Graph& g = call.graph;
  std::vector<Value> inputs(call.inputs.begin() + 1, call.inputs.end());
  const std::vector<uint8_t> wanted = floating(types_of(g, inputs));
  const ir::GraphRef region = transforms_of(kWithLengthName, call.transforms).gradient(*call.regions[0], wanted);
  add_cotangents(call, 0, call.results.size(), inputs);
  const Value first = with_length(g, call.inputs[0], std::move(inputs), region, ir::attrs_of<LengthAttrs>(call.attrs).symbol);
  return spread(results_from(first, region->outputs.size()), wanted, call.inputs.size(), 1);
}

// For models of different lengths, takes the largest; the region itself knows each model's length.
std::vector<ir::Batched> batch_with_length(const ir::BatchCall& call) {
  Graph& g = call.graph;
  std::vector<uint8_t> in, out(call.regions[0]->outputs.size());
  std::vector<Value> inputs;
  for (const ir::Batched& b : call.inputs.subspan(1)) in.push_back(b.batched), inputs.push_back(b.value);
  const ir::GraphRef region = transforms_of(kWithLengthName, call.transforms).batch(*call.regions[0], in, call.size, out);
  const Value length = call.inputs[0].batched ? largest(g, call.inputs[0].value) : call.inputs[0].value;
  const Value first = with_length(g, length, std::move(inputs), region, ir::attrs_of<LengthAttrs>(call.attrs).symbol);
  return batched_from(first, out);
}

}  // namespace

constinit const ir::OpDef def::with_length{
    .name = kWithLengthName,
    .inputs = -1,
    .regions = 1,
    .parse_attrs = ir::Attrs<LengthAttrs>::parse,
    .infer = infer_with_length,
    .vjp = vjp_with_length,
    .batch = batch_with_length,
    .no_cpu = "the planner compiles its region",
    .no_cuda = "the planner compiles its regions",
    .doc = "the results of a region in which a symbol stands for a length that only the data tell; made by while_loop's gradient",
};

}  // namespace lamina::ops
