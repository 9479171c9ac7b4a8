// Lengths known only from data, such as those of lists that grow in a loop. First each length is computed by a graph of its own: the whole
// graph reduced to what the number needs, without effects. Then the whole graph is planned for these lengths.
#include <algorithm>

#include "graph/frontend/plan.h"
#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"
#include "graph/passes/passes.h"

namespace lamina {
namespace {

bool has_symbol(const ir::Graph& g, const DimBindings& symbols) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const ir::Node& node) {
    return std::any_of(node.types.begin(), node.types.end(),
                       [&](const TensorType& t) { return substitute(t.shape, symbols) != t.shape; }) ||
           std::any_of(node.regions.begin(), node.regions.end(), [&](const ir::GraphRef& region) { return has_symbol(*region, symbols); });
  });
}

// The graph reduced to one value, without assignments and prints.
ir::Graph only_value(ir::Graph g, ir::Value v) {
  g.outputs = {v};
  const ir::Graph forwarded = passes::forward_assigned_values(ir::without_host_effects(g));
  ir::Rewriter rewriter(forwarded);
  for (int n = 0; n < forwarded.size(); ++n)
    if (forwarded[n].op->effect != ir::Effect::write) rewriter.copy(n);
  return passes::optimize(rewriter.finish()).graph;
}

}  // namespace

void ConcreteFunction::add_lengths(const Trace& trace) {
  for (size_t k = 0; k < trace.lengths.size(); ++k) {
    auto part = std::make_shared<Trace>(name_, device_);
    part->graph = only_value(graph_, trace.lengths[k].count);
    DimBindings later;
    for (size_t i = k; i < trace.lengths.size(); ++i) later[trace.lengths[i].symbol] = 1;
    if (has_symbol(part->graph, later))
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(name_, ": how long a list becomes depends on what is in it"),
                   .where = text(graph_[trace.lengths[k].count].line),
                   .why = "memory for the list is planned when its length is known, and the length is not known without the list",
                   .fix = "carry the values that decide in variables of their own, beside the list"});
    part->variables = variables_;
    part->captures = captures_;
    auto count = std::make_shared<ConcreteFunction>(part, cat(name_, ", a length"), arguments_, argument_resources_, nullptr, 0.0);
    count->lengths_ = lengths_;
    lengths_.push_back({trace.lengths[k].symbol, std::move(count)});
  }
}

void ConcreteFunction::find_lengths(Call& call) {
  for (const Length& length : lengths_) call.lengths.push_back(length.count->run_planned(call)[0].item<int64_t>());
}

DimBindings ConcreteFunction::bindings(const Call& call) const {
  std::vector<TensorType> types;
  for (const Tensor& t : call.arguments) types.push_back(t.type());
  for (const Tensor& t : captures_) types.push_back(t.type());
  DimBindings out = ir::bind_dims(graph_, types);
  for (size_t i = 0; i < lengths_.size(); ++i) out[lengths_[i].symbol] = call.lengths[i];
  return out;
}

}  // namespace lamina
