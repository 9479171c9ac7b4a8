// while_loop(carried..., captures...) [condition] [body].
#include "graph/ops/batching.h"
#include "graph/ops/region_checks.h"

namespace lamina::ops {
namespace {

constexpr const char* kWhileLoopName = "while_loop";

[[noreturn]] void refuse_while_loop(std::string what, std::string why) {
  throw Error(ErrorKind::invalid_argument, {.what = cat("while_loop: ", what), .where = "", .why = std::move(why), .fix = ""});
}

std::vector<TensorType> infer_while_loop(const ir::InferCall& call) {
  const auto& attrs = ir::attrs_of<LoopAttrs>(call.attrs);
  const Graph &condition = *call.regions[0], &body = *call.regions[1];
  if (attrs.carried < 0 || attrs.carried > int64_t(call.in.size()))
    refuse_while_loop(cat("it has ", call.in.size(), " inputs"), cat(attrs.carried, " are carried"));
  if (attrs.maximum < -1) refuse_while_loop(cat("the maximum of iterations is ", attrs.maximum), "it is 0 or more");
  require_region_inputs(kWhileLoopName, "condition", condition, call.in);
  require_region_inputs(kWhileLoopName, "body", body, call.in);
  if (condition.outputs.size() != 1)
    refuse_while_loop(cat("the condition gives ", condition.outputs.size(), " values"), "it gives one bool");
  require_predicate(kWhileLoopName, condition.type(condition.outputs[0]));
  std::vector<TensorType> out = types_of(body, body.outputs);
  if (int64_t(out.size()) != attrs.carried)
    refuse_while_loop(cat("the body gives ", out.size(), " values"), cat(attrs.carried, " are carried"));
  for (size_t i = 0; i < out.size(); ++i)
    if (!(out[i] == call.in[i]))
      refuse_while_loop(cat("carried value ", i, " is ", call.in[i], " and becomes ", out[i]), "it keeps its dtype and shape");
  out.push_back({DType::i64, {}});
  return out;
}

// A symbol that no inner region uses.
int deepest(const Graph& g) {
  int depth = 0;
  for (const ir::Node& node : g.nodes())
    for (const ir::GraphRef& region : node.regions) depth = std::max(depth, deepest(*region) + 1);
  return depth;
}

// The iterations were counted, so the loop becomes a differentiable scan. Its length is the maximum, or follows from the count.
std::vector<Value> vjp_while_loop(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const auto& attrs = ir::attrs_of<LoopAttrs>(call.attrs);
  const size_t carried = size_t(attrs.carried);
  const std::string symbol = cat("trips_", deepest(*call.regions[1]));
  const Dim length = attrs.maximum >= 0 ? Dim(attrs.maximum) : Dim::symbol(symbol);
  Graph forward;
  forward.place = g.place;
  std::vector<Value> in, captures, inputs(call.inputs.begin(), call.inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) (i < carried ? in : captures).push_back(forward.add_input(g.type(inputs[i])));
  const Value count = forward.add_input({DType::i64, {}});
  const Value first = scan(forward, in, {}, captures, call.regions[1], length, false, count);
  for (size_t i = 0; i < carried; ++i) forward.outputs.push_back({first.node, int(i)});

  std::vector<uint8_t> wanted = floating(types_of(g, inputs));
  wanted.push_back(false);
  const ir::GraphRef region = transforms_of(kWhileLoopName, call.transforms).gradient(forward, wanted);
  inputs.push_back(call.results[carried]);
  add_cotangents(call, 0, carried, inputs);
  std::vector<Value> gradients;
  if (attrs.maximum >= 0) {
    gradients = inline_region(g, *region, inputs);
  } else {
    const Value node = with_length(g, call.results[carried], std::move(inputs), region, symbol);
    gradients = results_from(node, region->outputs.size());
  }
  return spread(gradients, wanted, call.inputs.size());
}

// With one condition for all models, they continue together. With one per model, the loop runs until all are done, and finished models keep
// their values. The counts are then carried, one per model.
std::vector<ir::Batched> batch_while_loop(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const auto& attrs = ir::attrs_of<LoopAttrs>(call.attrs);
  const auto& transforms = transforms_of(kWhileLoopName, call.transforms);
  const size_t carried = size_t(attrs.carried);
  std::vector<uint8_t> in;
  for (const ir::Batched& b : call.inputs) in.push_back(b.batched);
  ir::GraphRef condition, body;
  std::vector<uint8_t> out, each;
  for (bool again = true; again;) {
    each.assign(1, false);
    condition = transforms.batch(*call.regions[0], in, call.size, each);
    if (each[0])
      for (size_t i = 0; i < carried; ++i) in[i] = true;
    if (each[0]) condition = transforms.batch(*call.regions[0], in, call.size, each);
    out.assign(in.begin(), in.begin() + int64_t(carried));
    body = transforms.batch(*call.regions[1], in, call.size, out);
    again = false;
    for (size_t i = 0; i < carried; ++i)
      if (out[i] && !in[i]) in[i] = again = true;
  }
  if (each[0]) refuse_host_effects(kWhileLoopName, call.regions);
  std::vector<Value> init, captures;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (i >= carried)
      captures.push_back(call.inputs[i].value);
    else
      init.push_back(in[i] ? with_own_models(g, call.inputs[i], call.size, *call.regions[1], call.regions[1]->inputs[i])
                           : call.inputs[i].value);
  }
  std::vector<ir::Batched> results;
  if (!each[0]) {
    const Value first = while_loop(g, std::move(init), std::move(captures), condition, body, attrs.maximum);
    for (size_t i = 0; i < carried; ++i) results.push_back({{first.node, int(i)}, bool(in[i])});
    results.push_back({{first.node, int(carried)}, false});
    return results;
  }
  // In both regions the counts are one more carried value, after the others.
  const TensorType counts{DType::i64, {call.size}};
  auto begin = [&](Graph& region, const Graph& from) {
    std::vector<Value> values;
    for (size_t i = 0; i < carried; ++i) values.push_back(region.add_input(from.type(from.inputs[i])));
    const Value count = region.add_input(counts);
    for (size_t i = carried; i < from.inputs.size(); ++i) values.push_back(region.add_input(from.type(from.inputs[i])));
    return std::pair(values, count);
  };
  Graph until, step;
  until.outputs = {any(until, inline_region(until, *condition, begin(until, *condition).first)[0])};
  const auto [values, count] = begin(step, *body);
  const Value active = inline_region(step, *condition, values)[0];
  const std::vector<Value> after = inline_region(step, *body, of_active_models(step, active, *body, values, in));
  for (size_t i = 0; i < carried; ++i) step.outputs.push_back(select_models(step, active, after[i], values[i]));
  step.outputs.push_back(add(step, count, astype(step, active, DType::i64)));
  init.push_back(full(g, counts, 0));
  const Value first = while_loop(g, std::move(init), std::move(captures), std::make_shared<const Graph>(std::move(until)),
                                 std::make_shared<const Graph>(std::move(step)), attrs.maximum);
  for (size_t i = 0; i <= carried; ++i) results.push_back({{first.node, int(i)}, true});
  return results;
}

}  // namespace

constinit const ir::OpDef def::while_loop{
    .name = kWhileLoopName,
    .inputs = -1,
    .regions = 2,
    .parse_attrs = ir::Attrs<LoopAttrs>::parse,
    .infer = infer_while_loop,
    .vjp = vjp_while_loop,
    .batch = batch_while_loop,
    .no_cpu = "the planner compiles its regions",
    .no_cuda = "the planner compiles its regions",
    .doc = "a region again and again, as long as another one gives true; the last result is the number of iterations",
};

}  // namespace lamina::ops
