// Lengths that only the data tell: of a list that grows in a loop. A function with such lengths runs in two steps. For each length there is
// a graph of its own, the whole one reduced to what that number needs, without effects; then the whole graph is planned for these lengths.
#include "graph/frontend/run_time_length.h"

#include <algorithm>

#include "graph/frontend/control_flow.h"
#include "graph/frontend/indexing.h"
#include "graph/frontend/plan.h"
#include "graph/ops/ops.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina {
namespace {

bool has_symbol(const ir::Graph& g, const DimBindings& symbols) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const ir::Node& node) {
    return std::any_of(node.types.begin(), node.types.end(),
                       [&](const TensorType& t) { return substitute(t.shape, symbols) != t.shape; }) ||
           std::any_of(node.regions.begin(), node.regions.end(), [&](const ir::GraphRef& region) { return has_symbol(*region, symbols); });
  });
}

// The graph reduced to one value, which assigns nothing and prints nothing.
ir::Graph only_value(ir::Graph g, ir::Value v) {
  g.outputs = {v};
  const ir::Graph forwarded = passes::forward_assigned_values(ir::without_host_effects(g));
  passes::Rewriter rewriter(forwarded);
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

namespace list {

Tensor buffer(const TensorType& element, CallSite at) {
  Trace* trace = Trace::current();
  if (!trace || !trace->takes_lengths)
    throw Error(ErrorKind::invalid_argument,
                {.what = "a list that grows in a loop is made inside of another loop or branch on tensors",
                 .where = text(at.line()),
                 .why = "its length is found before the whole graph runs, so it belongs to the function itself",
                 .fix = "make the list before the outer loop, or reduce it to a tensor in each iteration"});
  Shape shape{Dim::symbol(cat("list_", trace->graph.size()))};  // no other of this graph; the table of symbols is kept for ever
  shape.insert(shape.end(), element.shape.begin(), element.shape.end());
  return zeros(shape, element.dtype);
}

namespace {

void check_buffer(const Tensor& buffer, CallSite at) {
  if (!buffer.shape().empty()) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat("a list that grows in a loop is kept in a scalar ", buffer.type()),
                                            .where = text(at.line()),
                                            .why = "its elements lie along the first axis",
                                            .fix = "make the list by appending to a Python list in a function that is traced"});
}

}  // namespace

Tensor set(const Tensor& buffer, const Tensor& position, const Tensor& value, CallSite at) {
  check_buffer(buffer, at);
  const TensorType element{buffer.dtype(), Shape(buffer.shape().begin() + 1, buffer.shape().end())};
  if (!(value.type() == element))
    throw Error(value.dtype() == element.dtype ? ErrorKind::invalid_argument : ErrorKind::type,
                {.what = cat("append: the list has elements of ", element, ", this one is ", value.type()),
                 .where = text(at.line()),
                 .why = "what a list collects in a loop of the graph is stacked: all elements have one dtype and shape",
                 .fix = value.dtype() == element.dtype ? "reshape or pad it, or use a list for each shape"
                                                       : cat("convert it: lm.astype(x, lm.", numpy_name(element.dtype), ")")});
  return lamina::at(Operand(buffer, at), {IndexPart{IndexPart::Kind::tensor, 0, {}, {}, {}, position}}).set(Operand(value, at));
}

void close(const Tensor& buffer, const Tensor& count) {
  check_buffer(buffer, CallSite());
  Trace* trace = Trace::current();
  const Dim length = buffer.shape()[0];
  if (!trace || length.known()) return;
  const std::string symbol = cat(length);
  if (std::any_of(trace->lengths.begin(), trace->lengths.end(), [&](const Trace::Length& l) { return l.symbol == symbol; }))
    internal_error("a list was closed twice");
  trace->lengths.push_back({symbol, trace->value_of(count)});
}

}  // namespace list
}  // namespace lamina
