#include "graph/autodiff/gradient.h"

#include <algorithm>

#include "graph/autodiff/region_transforms.h"
#include "graph/ops/ops.h"

namespace lamina::autodiff {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

bool carries_gradient(const Graph& g, Value v) { return has_gradients(g.type(v).dtype); }

std::string place_of(const Node& node) {
  std::string line = text(node.line);
  return line.empty() ? cat("in ", node.scope, node.op->name) : cat("at ", line);
}

// One pass over the nodes. Values are numbered node by node, so that "the cotangent of a value" is an array.
class Differentiation {
 public:
  Differentiation(Graph& g, const GradientRequest& request) : g_(g), request_(request) {
    first_value_.reserve(size_t(g.size()) + 1);
    int values = 0;
    for (const Node& node : g.nodes()) {
      first_value_.push_back(values);
      values += int(node.types.size());
    }
    first_value_.push_back(values);
    cotangents_.resize(size_t(values));
    is_source_.resize(size_t(values));
  }

  std::vector<Value> run() {
    const Graph::Place place = g_.place;
    check_values("source", request_.sources);
    check_values("target", request_.targets);
    int first = g_.size(), last = -1;
    for (Value source : request_.sources) {
      is_source_[index(source)] = true;
      first = std::min(first, source.node);
    }
    for (Value target : request_.targets) last = std::max(last, target.node);
    find_path(first, last);
    seed_targets();
    for (int node = last; node >= first; --node)
      if (on_path_[size_t(node)]) differentiate(node);
    g_.place = place;
    std::vector<Value> gradients;
    for (Value source : request_.sources) gradients.push_back(cotangents_[index(source)]);
    return gradients;
  }

 private:
  size_t index(Value v) const { return size_t(first_value_[size_t(v.node)] + v.result); }

  void check_values(const char* role, std::span<const Value> values) const {
    for (Value v : values)
      if (v.node < 0 || v.node >= int(first_value_.size()) - 1 || v.result < 0 || size_t(v.result) >= g_[v].types.size())
        internal_error(cat("gradient: a ", role, " is not a value of the graph"));
  }

  // Marks the nodes on paths from a source.
  void find_path(int first, int last) {
    on_path_.assign(first_value_.size(), false);
    for (int node = std::max(first, request_.first_node); node <= last; ++node) {
      if (request_.blocks && request_.blocks(node)) continue;
      for (Value in : g_[node].inputs)
        if (carries_gradient(g_, in) && (is_source_[index(in)] || on_path_[size_t(in.node)])) {
          on_path_[size_t(node)] = true;
          break;
        }
    }
  }

  void seed_targets() {
    const auto& given = request_.cotangents;
    if (!given.empty() && given.size() != request_.targets.size())
      internal_error(cat("gradient: ", given.size(), " cotangents for ", request_.targets.size(), " targets"));
    for (size_t i = 0; i < request_.targets.size(); ++i) {
      Value target = request_.targets[i];
      const TensorType type = g_.type(target);
      if (is_complex(type.dtype) && (i >= given.size() || !given[i].valid()))
        throw Error(ErrorKind::type, {.what = cat("gradient: the target is ", type, ", which is complex"),
                                      .where = place_of(g_[target]),
                                      .why = "a slope is that of real numbers",
                                      .fix = "differentiate lm.real(y), lm.imag(y) or lm.abs(y), or pass output_gradients"});
      if (!has_gradients(type.dtype))
        throw Error(ErrorKind::type, {.what = cat("gradient: the target is ", type, ", which is not floating point"),
                                      .where = place_of(g_[target]),
                                      .why = "only floating-point values have gradients",
                                      .fix = "differentiate a value of dtype f32 or f64, or convert with astype before"});
      set_place(target.node);
      Value seed = i < given.size() ? given[i] : Value{};
      if (seed.valid() && !(g_.type(seed) == type))
        throw Error(ErrorKind::invalid_argument, {.what = cat("gradient: the cotangent is ", g_.type(seed), ", the target is ", type),
                                                  .where = place_of(g_[target]),
                                                  .why = "a cotangent has the dtype and shape of its target",
                                                  .fix = "pass one of that type, or none for ones"});
      accumulate(target, seed.valid() ? seed : ops::full(g_, type, 1.0));
    }
  }

  void set_place(int node) {
    const Node& n = g_[node];
    constexpr const char* mark = "grad/";
    g_.place = {n.line, n.scope.starts_with(mark) ? n.scope : mark + n.scope, n.device};
  }

  void accumulate(Value v, Value cotangent) {
    Value& sum = cotangents_[index(v)];
    sum = sum.valid() ? ops::sum_of_gradients(g_, sum, cotangent) : cotangent;
  }

  void differentiate(int number) {
    const size_t begin = size_t(first_value_[size_t(number)]), end = size_t(first_value_[size_t(number) + 1]);
    if (std::none_of(cotangents_.begin() + int64_t(begin), cotangents_.begin() + int64_t(end), [](Value v) { return v.valid(); })) return;
    // Copies, because the hook adds nodes, which moves existing ones.
    const ir::OpDef& op = *g_[number].op;
    const ir::AttrsRef attrs = g_[number].attrs;
    const std::vector<Value> inputs = g_[number].inputs;
    const std::vector<ir::GraphRef> regions = g_[number].regions;
    if (!op.vjp)
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(op.name, ": it has no gradient"),
                   .where = place_of(g_[number]),
                   .why = op.no_vjp ? op.no_vjp : "none is defined for this op",
                   .fix = "keep it off the path from the variables to the loss, or stop the gradient before it"});
    set_place(number);
    std::vector<Value> results;
    for (size_t i = 0; i < end - begin; ++i) results.push_back({number, int(i)});
    const std::vector<Value> cotangents(cotangents_.begin() + int64_t(begin), cotangents_.begin() + int64_t(end));
    static const ir::Attrs<ir::NoAttrs>& none = *new ir::Attrs<ir::NoAttrs>;
    const std::vector<Value> flow = op.vjp({g_, attrs ? *attrs : none, inputs, results, cotangents, regions, &region_transforms()});
    if (flow.size() != inputs.size())
      internal_error(cat(op.name, ": its gradient gives ", flow.size(), " values for ", inputs.size(), " inputs"));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Value in = inputs[i];
      if (!flow[i].valid() || !carries_gradient(g_, in) || !(is_source_[index(in)] || on_path_[size_t(in.node)])) continue;
      if (!(g_.type(flow[i]) == g_.type(in)))
        internal_error(cat(op.name, ": the gradient for input ", i, " is ", g_.type(flow[i]), ", the input is ", g_.type(in)));
      accumulate(in, flow[i]);
    }
  }

  Graph& g_;
  const GradientRequest& request_;
  std::vector<int> first_value_;
  std::vector<Value> cotangents_;
  std::vector<char> is_source_, on_path_;
};

}  // namespace

std::vector<Value> gradient(Graph& g, const GradientRequest& request) { return Differentiation(g, request).run(); }

ir::GraphRef region_gradient(const Graph& region, std::span<const uint8_t> wanted) {
  auto g = std::make_shared<Graph>(ir::without_host_effects(region));  // recomputation must not repeat effects
  std::vector<Value> targets, cotangents, sources;
  for (Value v : std::vector<Value>(g->outputs))
    if (carries_gradient(*g, v)) targets.push_back(v), cotangents.push_back(g->add_input(g->type(v)));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) sources.push_back(g->inputs[i]);
  g->outputs = targets.empty()
                   ? std::vector<Value>(sources.size())
                   : gradient(*g, {.targets = targets, .cotangents = cotangents, .sources = sources, .first_node = 0, .blocks = {}});
  for (size_t i = 0; i < sources.size(); ++i)
    if (!g->outputs[i].valid()) g->outputs[i] = ops::full(*g, g->type(sources[i]), 0);
  // Drops what the gradient does not need at once; otherwise nested branches would contain all inner levels again at each level.
  auto needed = std::make_shared<Graph>();
  std::vector<Value> in;
  for (Value v : g->inputs) in.push_back(needed->add_input(g->type(v), ir::attrs_of<ir::InputAttrs>(*(*g)[v].attrs).name));
  needed->outputs = ops::inline_region(*needed, *g, in);
  return needed;
}

}  // namespace lamina::autodiff
