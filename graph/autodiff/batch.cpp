#include "graph/autodiff/batch.h"

#include <algorithm>

#include "graph/autodiff/region_transforms.h"
#include "graph/ops/batching.h"
#include "graph/ops/ops.h"

namespace lamina::autodiff {
namespace {

using ir::Batched;
using ir::Graph;
using ir::Node;
using ir::Value;

bool marked(std::span<const uint8_t> marks, size_t i) { return i < marks.size() && marks[i]; }

// Whether each model must run the node although all its inputs are shared: each model draws its own numbers.
bool draws(const Node& node) {
  return node.op->draws || std::any_of(node.regions.begin(), node.regions.end(), [](const ir::GraphRef& region) {
           return region && std::any_of(region->nodes().begin(), region->nodes().end(), draws);
         });
}

class Batching {
 public:
  Batching(const Graph& from, const BatchRequest& request) : from_(from), request_(request) {}

  BatchedGraph run() {
    BatchedGraph out;
    Graph& to = to_;
    to.resources = from_.resources;
    for (size_t i = 0; i < to.resources.size(); ++i)
      if (marked(request_.resources, i)) to.resources[i].type.shape = ops::with_model_axis(request_.size, to.resources[i].type.shape);
    values_.resize(size_t(from_.size()));
    for (int n = 0; n < from_.size(); ++n) {
      to.place = {from_[n].line, from_[n].scope, from_[n].device};
      add(n);
    }
    for (Value v : from_.inputs) to.inputs.push_back((*this)[v].value);
    for (size_t i = 0; i < from_.outputs.size(); ++i) {
      Batched v = (*this)[from_.outputs[i]];
      to.place = {from_[from_.outputs[i]].line, from_[from_.outputs[i]].scope, from_[from_.outputs[i]].device};
      if (marked(request_.outputs, i)) v = {ops::with_model_axis(to, v, request_.size), true};
      to.outputs.push_back(v.value);
      out.outputs.push_back(v.batched);
    }
    to.place = from_.place;
    out.graph = std::move(to_);
    return out;
  }

 private:
  const Batched& operator[](Value v) const { return values_[size_t(v.node)][size_t(v.result)]; }

  void add(int n) {
    const Node& node = from_[n];
    const int resource = ir::resource_of(node);
    if (node.op == &ops::def::input) return add_input(n);
    if (resource >= 0) return node.op->effect == ir::Effect::read ? add_read(n, resource) : add_assign(n, resource);
    std::vector<Batched> in;
    bool any = !request_.same_draws && draws(node);
    for (Value v : node.inputs) {
      in.push_back((*this)[v]);
      any = any || in.back().batched;
    }
    if (!any) {
      std::vector<Value> same;
      for (const Batched& b : in) same.push_back(b.value);
      const Value first = to_.copy(node, std::move(same));
      for (size_t r = 0; r < node.types.size(); ++r) values_[size_t(n)].push_back({{first.node, int(r)}, false});
      return;
    }
    if (!node.op->batch) refuse(node);
    if (request_.same_draws && node.op->draws) in.back() = {ops::with_model_axis(to_, in.back(), request_.size), true};  // a state for each
    values_[size_t(n)] = node.op->batch({to_, *node.attrs, in, request_.size, node.regions, &region_transforms(request_.same_draws)});
    check_results(n);
  }

  void add_input(int n) {
    const auto at = std::find(from_.inputs.begin(), from_.inputs.end(), Value{n, 0});
    ir::InputAttrs attrs = ir::attrs_of<ir::InputAttrs>(*from_[n].attrs);
    const bool batched = at != from_.inputs.end() && marked(request_.inputs, size_t(at - from_.inputs.begin()));
    if (batched) attrs.type.shape = ops::with_model_axis(request_.size, attrs.type.shape);
    values_[size_t(n)] = {{to_.add(ops::def::input, ir::make_attrs(std::move(attrs)), {}), batched}};
  }

  void add_read(int n, int resource) { values_[size_t(n)] = {{ops::read(to_, resource), marked(request_.resources, size_t(resource))}}; }

  void add_assign(int n, int resource) {
    const Node& node = from_[n];
    const Batched& value = (*this)[node.inputs[0]];
    if (marked(request_.resources, size_t(resource))) return ops::assign(to_, resource, ops::with_model_axis(to_, value, request_.size));
    if (value.batched && from_.resources[size_t(resource)].name == "random.generator")
      throw Error(ErrorKind::invalid_argument,
                  {.what = "a draw stands in a branch or loop whose condition differs from model to model",
                   .where = text(node.line),
                   .why = "under vmap all models draw from one generator, and here only some of them would",
                   .fix = "draw before the branch or loop and use the numbers inside of it, or give each model a generator (lm.nn.stack)"});
    if (value.batched)
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat("assign: under vmap each model has a value of its own for the variable '",
                               from_.resources[size_t(resource)].name, "'"),
                   .where = text(node.line),
                   .why = "the variable is not stacked: it has one value for all models",
                   .fix = "stack it (lm.nn.stack, lm.per_model), or return the values and assign what you make of them after vmap"});
    ops::assign(to_, resource, value.value);
  }

  [[noreturn]] void refuse(const Node& node) const {
    throw Error(ErrorKind::invalid_argument, {.what = cat(node.op->name, ": it cannot be batched"),
                                              .where = text(node.line),
                                              .why = node.op->no_batch ? node.op->no_batch : "no rule is defined for this op",
                                              .fix = "call it outside of vmap"});
  }

  // A rule that loses or adds an axis would otherwise fail far away.
  void check_results(int n) const {
    const Node& node = from_[n];
    const std::vector<Batched>& results = values_[size_t(n)];
    if (results.size() != node.types.size())
      internal_error(cat(node.op->name, ": its batching rule gives ", results.size(), " results, not ", node.types.size()));
    for (size_t r = 0; r < results.size(); ++r) {
      TensorType want = node.types[r];
      if (results[r].batched) want.shape = ops::with_model_axis(request_.size, want.shape);
      if (!(to_.type(results[r].value) == want))
        internal_error(cat(node.op->name, ": its batching rule gives ", to_.type(results[r].value), " instead of ", want));
    }
  }

  const Graph& from_;
  const BatchRequest& request_;
  Graph to_;
  std::vector<std::vector<Batched>> values_;  // per node of from_: its results
};

}  // namespace

BatchedGraph batch(const Graph& g, const BatchRequest& request) { return Batching(g, request).run(); }

template <bool same_draws>
ir::GraphRef batch_region(const Graph& region, std::span<const uint8_t> batched_inputs, Dim size, std::vector<uint8_t>& batched_outputs) {
  BatchedGraph out =
      batch(region, {.size = size, .inputs = batched_inputs, .resources = {}, .outputs = batched_outputs, .same_draws = same_draws});
  batched_outputs = std::move(out.outputs);
  return std::make_shared<const Graph>(std::move(out.graph));
}
template ir::GraphRef batch_region<false>(const Graph&, std::span<const uint8_t>, Dim, std::vector<uint8_t>&);
template ir::GraphRef batch_region<true>(const Graph&, std::span<const uint8_t>, Dim, std::vector<uint8_t>&);

}  // namespace lamina::autodiff
