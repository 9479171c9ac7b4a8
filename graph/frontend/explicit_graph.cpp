#include "graph/frontend/explicit_graph.h"

#include <algorithm>
#include <map>

#include "graph/frontend/device.h"
#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"
#include "runtime/core/mutex.h"

namespace lamina {

// The graph for one list of fetches, and the inputs it needs.
struct FetchedGraph {
  std::shared_ptr<ConcreteFunction> function;
  std::vector<int> inputs;  // node numbers in the whole graph
};

struct Graph::Data {
  std::shared_ptr<Trace> trace;
  struct Initial {
    Variable variable;
    Tensor value;
  };
  std::vector<Initial> initial;
  Mutex mutex;
  std::map<std::vector<int>, std::pair<int, FetchedGraph>> fetched;  // keyed by the fetched values; with the number of nodes at that time

  // Unique names of nodes: "add", "add_1".
  std::map<std::string, int> names() const {
    std::map<std::string, int> out;
    std::map<std::string, int> met;
    for (int n = 0; n < trace->graph.size(); ++n) {
      const ir::Node& node = trace->graph[n];
      std::string name = node.scope + node.op->name;
      if (node.op == &ops::def::input && !ir::attrs_of<ir::InputAttrs>(*node.attrs).name.empty())
        name = ir::attrs_of<ir::InputAttrs>(*node.attrs).name;
      if (int before = met[name]++) name += cat('_', before);
      out.emplace(std::move(name), n);
    }
    return out;
  }
  ir::Value find(const std::string& wanted) const {
    const std::map<std::string, int> all = names();
    const size_t colon = wanted.rfind(':');
    const auto at = all.find(wanted.substr(0, colon));
    int result = 0;
    if (colon != std::string::npos) {
      const std::string digits = wanted.substr(colon + 1);
      result = digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos ? -1 : std::stoi(digits);
    }
    if (at == all.end() || result < 0 || (colon != std::string::npos && result >= int(trace->graph[at->second].types.size()))) {
      std::vector<std::string> existing;
      for (auto& [name, node] : all) existing.push_back(colon == std::string::npos ? name : name + ":0");
      throw unknown_name("operation of the graph", wanted, existing);
    }
    return {at->second, result};
  }
  FetchedGraph make(const std::vector<ir::Value>& fetches) const;
};

namespace {

// The nodes that the fetches need: their inputs and, for a read, the assignment that it sees.
std::vector<char> needed_nodes(const ir::Graph& g, const std::vector<ir::Value>& fetches) {
  std::vector<int> seen_by(size_t(g.size()), -1), last(g.resources.size(), -1);
  for (int n = 0; n < g.size(); ++n) {
    const int resource = ir::resource_of(g[n]);
    if (resource < 0) continue;
    if (g[n].op->effect == ir::Effect::write)
      last[size_t(resource)] = n;
    else
      seen_by[size_t(n)] = last[size_t(resource)];
  }
  std::vector<char> needed(size_t(g.size()));
  for (ir::Value v : fetches) needed[size_t(v.node)] = true;
  for (int n = g.size() - 1; n >= 0; --n) {
    if (!needed[size_t(n)]) continue;
    for (ir::Value v : g[n].inputs) needed[size_t(v.node)] = true;
    if (seen_by[size_t(n)] >= 0) needed[size_t(seen_by[size_t(n)])] = true;
  }
  return needed;
}

}  // namespace

FetchedGraph Graph::Data::make(const std::vector<ir::Value>& fetches) const {
  const ir::Graph& g = trace->graph;
  const std::vector<char> needed = needed_nodes(g, fetches);
  auto part = std::make_shared<Trace>(trace->function, trace->device);
  FetchedGraph out;
  ir::Rewriter to(g, part->graph);
  for (bool captured : {false, true})  // first the inputs of runs, then the graph's constants
    for (ir::Value v : g.inputs) {
      const auto capture = std::find(trace->capture_inputs.begin(), trace->capture_inputs.end(), v);
      if (!needed[size_t(v.node)] || captured != (capture != trace->capture_inputs.end())) continue;
      to.map(v, part->graph.add_input(g.type(v), ir::attrs_of<ir::InputAttrs>(*g[v].attrs).name));
      if (captured)
        part->captures.push_back(trace->captures[size_t(capture - trace->capture_inputs.begin())]), part->capture_inputs.push_back(to[v]);
      else
        out.inputs.push_back(v.node);
    }
  for (int n = 0; n < g.size(); ++n) {
    if (!needed[size_t(n)] || to.mapped(n)) continue;
    ir::Node node = g[n];
    if (const int resource = ir::resource_of(node); resource >= 0) {
      const Variable& v = trace->variables[size_t(resource)];
      node.attrs = ir::make_attrs(ir::ResourceAttrs{part->resource_of(v), v.type()});
    }
    to.copy(n, node);
  }
  for (ir::Value v : fetches)
    if (!g[v].types.empty()) part->graph.outputs.push_back(to[v]);
  out.function = std::make_shared<ConcreteFunction>(part, trace->function, out.inputs.size(), std::vector<int>{}, nullptr, 0.0);
  return out;
}

Graph::Graph(std::string name) : data_(std::make_shared<Data>()) {
  data_->trace = std::make_shared<Trace>(std::move(name), default_device());
}

TraceScope Graph::building() const { return TraceScope(data_->trace); }

Tensor Graph::input(const TensorSpec& spec, const std::string& name) {
  if (Trace::current() != data_->trace.get())
    throw Error(ErrorKind::state, {.what = cat("Graph.input: '", name, "' is made outside of building()"),
                                   .where = text(CallSite().line()),
                                   .why = "",
                                   .fix = "make it inside of the building() scope of this graph"});
  TensorType type{spec.dtype, spec.shape};
  for (Dim& d : type.shape)
    if (!d.known()) d = Dim::fresh("n");
  return data_->trace->add_input(type, name.empty() ? spec.name : name);
}

Variable Graph::variable(const Operand& initial, const std::string& name) {
  EagerScope outside;
  const Variable made(initial, name);
  data_->initial.push_back({made, made.read()});
  std::lock_guard lock(made.state().mutex);
  made.state().buffer = nullptr;
  return made;
}

void Graph::initialize() const {
  EagerScope outside;
  for (const Data::Initial& one : data_->initial) one.variable.assign(one.value);
}

std::vector<std::string> Graph::operations() const {
  const std::map<std::string, int> all = data_->names();
  std::vector<std::string> out(all.size());
  for (auto& [name, node] : all) out[size_t(node)] = name;
  return out;
}

Tensor Graph::tensor(const std::string& name) const {
  const ir::Value v = data_->find(name);
  if (data_->trace->graph[v].types.empty())
    throw Error(
        ErrorKind::not_found,
        {.what = cat("Graph.tensor: '", name, "' has no result"), .where = "", .why = "it is an effect", .fix = "pass its name to run()"});
  return data_->trace->symbol(v);
}

std::string Graph::name_of(const Tensor& t) const {
  if (!t.is_symbolic() || t.handle()->trace.lock() != data_->trace)
    throw Error(ErrorKind::invalid_argument, {.what = cat("Graph.run: ", t.str(), " is not a value of this graph"),
                                              .where = text(CallSite().line()),
                                              .why = "",
                                              .fix = "use what was computed inside of its building() scope"});
  for (auto& [name, node] : data_->names())
    if (node == t.handle()->value.node) return cat(name, ":", t.handle()->value.result);
  internal_error("a value of an explicit graph has no name");
}

std::vector<Tensor> Graph::run(const std::vector<Fetch>& fetches, const std::vector<std::pair<std::string, Tensor>>& inputs) const {
  Data& d = *data_;
  std::vector<ir::Value> values;
  for (const Fetch& f : fetches) {
    if (!f.tensor.defined()) {
      values.push_back(d.find(f.operation));
      continue;
    }
    name_of(f.tensor);  // throws
    values.push_back(f.tensor.handle()->value);
  }
  std::vector<int> key;
  for (ir::Value v : values) key.push_back(v.node), key.push_back(v.result);
  FetchedGraph found;
  {
    std::lock_guard lock(d.mutex);
    auto at = d.fetched.find(key);
    if (at == d.fetched.end() || at->second.first != d.trace->graph.size())
      at = d.fetched.insert_or_assign(key, std::pair(d.trace->graph.size(), d.make(values))).first;
    found = at->second.second;
  }
  std::vector<Tensor> arguments;
  std::vector<char> used(inputs.size());
  for (int node : found.inputs) {
    const std::string& name = ir::attrs_of<ir::InputAttrs>(*d.trace->graph[node].attrs).name;
    auto at = std::find_if(inputs.begin(), inputs.end(), [&](auto& one) { return one.first == name || one.first == name + ":0"; });
    if (at == inputs.end())
      throw Error(ErrorKind::invalid_argument, {.what = cat("Graph.run: the input '", name, "' has no value"),
                                                .where = text(CallSite().line()),
                                                .why = "a fetch needs it",
                                                .fix = cat("pass one for '", name, "'")});
    arguments.push_back(at->second);
  }
  for (auto& [name, value] : inputs)
    if (d.trace->graph[d.find(name)].op != &ops::def::input)
      throw Error(ErrorKind::invalid_argument, {.what = cat("Graph.run: '", name, "' is not an input"),
                                                .where = text(CallSite().line()),
                                                .why = "only inputs are given values",
                                                .fix = "make it with input()"});
  EagerScope outside;
  const std::vector<Tensor> results = found.function->call(arguments);
  std::vector<Tensor> out;
  size_t next = 0;
  for (ir::Value v : values) out.push_back(d.trace->graph[v].types.empty() ? Tensor() : results[next++]);
  return out;
}

}  // namespace lamina
