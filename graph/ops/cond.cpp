// cond(pred, captures...) [then] [otherwise]: the results of one of two regions.
#include "graph/ops/batching.h"
#include "graph/ops/region_checks.h"

namespace lamina::ops {
namespace {

constexpr const char* kCondName = "cond";

std::vector<TensorType> infer_cond(const ir::InferCall& call) {
  if (call.in.empty())
    throw Error(ErrorKind::invalid_argument,
                {.what = "cond: it has no condition", .where = "", .why = "its first input is a bool", .fix = ""});
  require_predicate(kCondName, call.in[0]);
  for (int i = 0; i < 2; ++i) require_region_inputs(kCondName, i ? "other branch" : "branch", *call.regions[size_t(i)], call.in.subspan(1));
  std::vector<TensorType> then = types_of(*call.regions[0], call.regions[0]->outputs),
                          otherwise = types_of(*call.regions[1], call.regions[1]->outputs);
  if (then.size() != otherwise.size())
    throw Error(ErrorKind::invalid_argument, {.what = cat("cond: one branch gives ", then.size(), " values, the other ", otherwise.size()),
                                              .where = "",
                                              .why = "both give the same",
                                              .fix = ""});
  for (size_t i = 0; i < then.size(); ++i)
    if (!(then[i] == otherwise[i]))
      throw Error(then[i].dtype == otherwise[i].dtype ? ErrorKind::invalid_argument : ErrorKind::type,
                  {.what = cat("cond: value ", i, " is ", then[i], " in one branch and ", otherwise[i], " in the other"),
                   .where = "",
                   .why = "both give the same types",
                   .fix = ""});
  return then;
}

// The gradient of the branch taken, which recomputes that branch.
std::vector<Value> vjp_cond(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const auto& transforms = transforms_of(kCondName, call.transforms);
  const std::vector<uint8_t> wanted = floating(types_of(g, call.inputs.subspan(1)));
  std::vector<Value> captures(call.inputs.begin() + 1, call.inputs.end());
  add_cotangents(call, 0, call.results.size(), captures);
  ir::GraphRef then = transforms.gradient(*call.regions[0], wanted), otherwise = transforms.gradient(*call.regions[1], wanted);
  const size_t count = then->outputs.size();
  const Value first = cond(g, call.inputs[0], std::move(captures), std::move(then), std::move(otherwise));
  return spread(results_from(first, count), wanted, call.inputs.size(), 1);
}

// The results of a branch for the models on its way; others' are discarded. A branch that can fail runs only if there are some.
std::vector<Value> of_models(Graph& g, Value mask, const ir::GraphRef& branch, const std::vector<Value>& captures,
                             std::span<const uint8_t> batched) {
  if (!can_fail(*branch)) return inline_region(g, *branch, captures);
  Graph nothing;
  for (Value v : branch->inputs) nothing.add_input(branch->type(v));
  for (Value v : branch->outputs) nothing.outputs.push_back(full(nothing, branch->type(v), 0));
  const size_t count = branch->outputs.size();
  return results_from(cond(g, any(g, mask), of_active_models(g, mask, *branch, captures, batched), branch,
                           std::make_shared<const Graph>(std::move(nothing))),
                      count);
}

// With one condition for all models, one branch runs; with one per model, both run and each model selects its result.
std::vector<ir::Batched> batch_cond(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const auto& transforms = transforms_of(kCondName, call.transforms);
  std::vector<uint8_t> in;
  std::vector<Value> captures;
  for (const ir::Batched& b : call.inputs.subspan(1)) in.push_back(b.batched), captures.push_back(b.value);
  const bool select = call.inputs[0].batched;
  if (select) refuse_host_effects(kCondName, call.regions);
  std::vector<uint8_t> out(call.regions[0]->outputs.size(), select);
  ir::GraphRef then = transforms.batch(*call.regions[0], in, call.size, out);
  const std::vector<uint8_t> of_then = out;
  ir::GraphRef otherwise = transforms.batch(*call.regions[1], in, call.size, out);
  if (out != of_then) then = transforms.batch(*call.regions[0], in, call.size, out);  // also batches what the other one has batched
  if (!select) {
    const Value first = cond(g, call.inputs[0].value, std::move(captures), std::move(then), std::move(otherwise));
    return batched_from(first, out);
  }
  const std::vector<Value> a = of_models(g, call.inputs[0].value, then, captures, in),
                           b = of_models(g, logical_not(g, call.inputs[0].value), otherwise, captures, in);
  std::vector<ir::Batched> results;
  for (size_t i = 0; i < a.size(); ++i) results.push_back({select_models(g, call.inputs[0].value, a[i], b[i]), true});
  return results;
}

}  // namespace

constinit const ir::OpDef def::cond{
    .name = kCondName,
    .inputs = -1,
    .regions = 2,
    .infer = infer_cond,
    .vjp = vjp_cond,
    .batch = batch_cond,
    .no_cpu = "the planner compiles its regions",
    .no_cuda = "the planner compiles its regions",
    .doc = "the results of one of two regions, chosen by a bool",
};

}  // namespace lamina::ops
