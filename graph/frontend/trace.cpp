#include "graph/frontend/trace.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/model_axis.h"
#include "graph/frontend/substitute.h"
#include "graph/frontend/tape_record.h"
#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"
#include "runtime/core/per_thread.h"

namespace lamina {
namespace {

constexpr int64_t kLargestConstant = 4096;  // bytes; larger tensors are captured by reference, not copied into the graph

// Afterwards push_back cannot fail.
template <class T>
void make_room(std::vector<T>& list) {
  if (list.size() == list.capacity()) list.reserve(std::max<size_t>(8, 2 * list.size()));
}

// The nodes that an output or an effect other than a read depends on.
std::vector<char> results_and_effects(const ir::Graph& g) {
  std::vector<char> needed(size_t(g.size()));
  for (ir::Value v : g.outputs) needed[size_t(v.node)] = true;
  for (int n = g.size() - 1; n >= 0; --n) {
    needed[size_t(n)] |= g[n].op->effect != ir::Effect::read && ir::has_effects(g[n]);
    if (!needed[size_t(n)]) continue;
    for (ir::Value v : g[n].inputs) needed[size_t(v.node)] = true;
  }
  return needed;
}

thread_local std::shared_ptr<Trace> innermost;
struct Scopes {
  std::string prefix;
};
std::string& scope_prefix() { return PerThread<Scopes>::get().prefix; }

}  // namespace

TraceScope::TraceScope(std::shared_ptr<Trace> trace) : substitute_(Substitute::current()) {
  if (trace) check_stack({});
  if (trace) Substitute::exchange(nullptr);
  before_ = std::exchange(innermost, std::move(trace));
}
TraceScope::~TraceScope() {
  if (innermost && innermost->by_rows && before_) before_->by_rows = true;
  innermost = std::move(before_);
  Substitute::exchange(substitute_);
}
Trace* Trace::current() { return innermost.get(); }
bool executing_eagerly() { return !innermost; }

NameScope::NameScope(const std::string& name) : before_(scope_prefix().size()) { scope_prefix() += name + "/"; }
NameScope::~NameScope() { scope_prefix().resize(before_); }
const std::string& NameScope::current() { return scope_prefix(); }

Trace::Trace(std::string function, Device device) : function(std::move(function)), device(device) {}

Tensor Trace::symbol(ir::Value v) const {
  auto data = std::make_shared<TensorData>();
  data->type = std::make_shared<const TensorType>(graph.type(v));
  const std::optional<Device>& chosen = graph[v].device;
  data->device = chosen && *chosen != kAutomatic ? *chosen : device;
  data->trace = std::const_pointer_cast<Trace>(shared_from_this());
  data->value = v;
  data->function = function;
  return Tensor(std::move(data));
}

Tensor Trace::add_input(const TensorType& type, const std::string& name) {
  graph.place = {};
  return symbol(graph.add_input(type, name));
}

std::vector<Tensor> Trace::add_node(const ir::OpDef& op, ir::AttrsRef attrs, std::span<const Tensor> inputs, CallSite at,
                                    std::span<const ir::GraphRef> regions) {
  std::vector<ir::Value> in;
  in.reserve(inputs.size());
  for (const Tensor& t : inputs) in.push_back(value_of(t, at));
  graph.place = {at.line(), scope_prefix(), {}};
  if (in_automatic_scope())
    graph.place.device = kAutomatic;
  else if (in_device_scope() && default_device() != device)
    graph.place.device = default_device();
  ir::Value first = graph.add(op, std::move(attrs), std::move(in), {regions.begin(), regions.end()});
  if (recording()) record_nodes(this, first.node);
  std::vector<Tensor> out;
  for (int i = 0; i < int(graph[first].types.size()); ++i) out.push_back(symbol({first.node, i}));
  return out;
}

ir::Value Trace::captured_value(const Tensor& t) const {
  auto at = captured_.find(t.handle().get());
  return at == captured_.end() ? ir::Value{} : at->second;
}

Error finished_trace(const std::string& function, std::string where) {
  return Error(ErrorKind::state, {.what = cat("a value of the finished trace of '", function, "' is used"),
                                  .where = std::move(where),
                                  .why = "a traced value means something only inside of the call that made it",
                                  .fix = "return it from the function, or keep it in an lm.Variable"});
}

ir::Value Trace::value_of(const Tensor& t, CallSite at) {
  t.type();  // throws when it is empty
  const TensorData& d = *t.handle();
  if (t.is_symbolic()) {
    std::shared_ptr<Trace> owner = d.trace.lock();
    if (owner.get() == this) return d.value;
    if (!owner) throw finished_trace(d.function, cat(at.line().known() ? text(at.line()) + ", " : "", "while '", function, "' is traced"));
  }
  if (ir::Value known = captured_value(t); known.valid()) return known;
  const ir::Graph::Place place = std::exchange(graph.place, {at.line(), scope_prefix(), {}});
  // Without memory this may stop half-way. A body that catches the error must find it undone; unused nodes are dropped later.
  ir::Value& v = captured_[&d];
  struct Undo {
    Trace& trace;
    const TensorData* data;
    bool done = false;
    ~Undo() {
      if (!done) trace.captured_.erase(data);
    }
  } undo{*this, &d};
  if (!t.is_symbolic() && byte_size(*d.type) <= kLargestConstant && d.trace.lock().get() == this) {
    std::vector<std::byte> bytes(size_t(byte_size(*d.type)));
    t.copy_to_host(bytes.data(), bytes.size());
    constants_.push_back(t);
    v = graph.add_constant(ir::Literal::from(*d.type, bytes.data()));
  } else {
    make_room(captures);
    make_room(capture_inputs);
    v = graph.add_input(*d.type, "captured");
    captures.push_back(t);
    capture_inputs.push_back(v);
  }
  graph.place = place;
  undo.done = true;
  return v;
}

void Trace::add_outputs(std::span<const Tensor> results, CallSite at) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined())
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(function, ": result ", i, " is an empty Tensor"),
                   .where = text(at.line()),
                   .why = "it was never given a value: a gradient that nothing connects, or a default-constructed Tensor",
                   .fix = "return tensors that have values"});
    graph.outputs.push_back(value_of(results[i], at));
  }
}

int Trace::resource_of(const Variable& v) {
  ModelAxis::use(*v.handle());
  auto [at, inserted] = resources_.try_emplace(v.handle().get(), int(variables.size()));
  if (inserted) try {
      make_room(variables);
      graph.add_resource({v.name(), v.type()});
      variables.push_back(v);
    } catch (...) {
      resources_.erase(at);
      throw;
    }
  return at->second;
}

Tensor Trace::read(const Variable& v, CallSite at) {
  int resource = resource_of(v);
  std::optional<DeviceScope> there;  // the value is placed with its Variable
  if (v.device() != device || in_device_scope()) there.emplace(v.device());
  Tensor t = add_node(ops::def::read, ir::make_attrs(ir::ResourceAttrs{resource, v.type()}), {}, at)[0];
  if (recording()) record_read(v, t);
  return t;
}
void Trace::assign(const Variable& v, const Tensor& value, CallSite at) {
  int resource = resource_of(v);
  add_node(ops::def::assign, ir::make_attrs(ir::ResourceAttrs{resource, v.type()}), std::span(&value, 1), at);
}

std::vector<Tensor> Trace::inline_graph(const ir::Graph& g, std::span<const Tensor> inputs, std::span<const Variable> inner, CallSite at,
                                        const Changes* changes) {
  ir::Rewriter to(g, graph);
  for (size_t i = 0; i < inputs.size(); ++i) to.map(g.inputs[i], value_of(inputs[i], at));
  const std::vector<char> needed = changes ? results_and_effects(g) : std::vector<char>(size_t(g.size()), true);
  for (int n = 0; n < g.size(); ++n) {
    if (to.mapped(n) || !needed[size_t(n)]) continue;  // mapped: an input
    ir::Node node = g[n];
    const int resource = ir::resource_of(node);
    if (changes && node.op == &ops::def::read) {
      to.map({n, 0}, value_of(changes->read(resource), at));
      continue;
    }
    if (resource >= 0) node.attrs = ir::make_attrs(ir::ResourceAttrs{resource_of(inner[size_t(resource)]), inner[size_t(resource)].type()});
    node.scope = scope_prefix() + node.scope;
    std::vector<ir::Value> operands = to[node.inputs];
    if (changes) {
      std::vector<Tensor> tensors;
      for (ir::Value v : operands) tensors.push_back(symbol(v));
      changes->operands(n, tensors);
      if (tensors.size() != operands.size()) internal_error(cat(tensors.size(), " inputs for ", node.op->name));
      for (size_t i = 0; i < operands.size(); ++i) operands[i] = value_of(tensors[i], at);
    }
    const ir::Value copied = graph.copy(node, std::move(operands));
    to.map_results(n, copied);
    if (!recording()) continue;
    record_nodes(this, copied.node);
    if (node.op == &ops::def::read) record_read(inner[size_t(resource)], symbol(copied));
  }
  std::vector<Tensor> out;
  for (ir::Value v : g.outputs) out.push_back(symbol(to[v]));
  return out;
}

// The value of a resource at a node: the last assignment before it in the trace, else the Variable's current value.
Tensor Trace::evaluate_now(const Tensor& symbolic, CallSite at) {
  const ir::Value target = value_of(symbolic, at);
  std::vector<int> assigned_before(size_t(graph.size()), -1);  // per read: the assign whose value it reads
  std::unordered_map<int, int> last;
  for (int n = 0; n <= target.node; ++n) {
    if (graph[n].op->effect == ir::Effect::write)
      last[ir::resource_of(graph[n])] = n;
    else if (graph[n].op->effect == ir::Effect::read)
      if (auto seen = last.find(ir::resource_of(graph[n])); seen != last.end()) assigned_before[size_t(n)] = seen->second;
  }
  std::vector<char> needed(size_t(target.node) + 1);
  needed[size_t(target.node)] = true;
  for (int n = target.node; n >= 0; --n) {
    if (!needed[size_t(n)]) continue;
    for (ir::Value in : graph[n].inputs) needed[size_t(in.node)] = true;
    if (assigned_before[size_t(n)] >= 0) needed[size_t(graph[assigned_before[size_t(n)]].inputs[0].node)] = true;
  }
  EagerScope outside;
  std::vector<std::vector<Tensor>> values(needed.size());
  for (size_t n = 0; n < needed.size(); ++n) {
    if (!needed[n]) continue;
    const ir::Node& node = graph[int(n)];
    auto value = [&](ir::Value v) { return values[size_t(v.node)][size_t(v.result)]; };
    if (const ir::Literal* literal = ir::constant_value(graph, {int(n), 0})) {
      values[n] = {tensor_of(*literal)};
    } else if (node.op == &ops::def::input) {
      auto capture = std::find(capture_inputs.begin(), capture_inputs.end(), ir::Value{int(n), 0});
      if (capture == capture_inputs.end() || captures[size_t(capture - capture_inputs.begin())].is_symbolic())
        throw Error(ErrorKind::invalid_argument,
                    {.what = cat("Variable: its initial value depends on ", name_of({int(n), 0}), ", a traced value of '", function, "'"),
                     .where = text(at.line()),
                     .why = "a Variable is made once, when the function is traced; the traced value exists only when the graph runs, and "
                            "differs from call to call",
                     .fix = "start from constants or shapes and assign the traced value afterwards"});
      values[n] = {captures[size_t(capture - capture_inputs.begin())]};
    } else if (assigned_before[n] >= 0) {
      values[n] = {value(graph[assigned_before[n]].inputs[0])};
    } else if (node.op == &ops::def::read) {
      values[n] = {variables[size_t(ir::resource_of(node))].read()};
    } else {
      std::vector<Tensor> in;
      for (ir::Value v : node.inputs) in.push_back(value(v));
      std::optional<DeviceScope> there;
      if (node.device) there.emplace(*node.device);
      values[n] = apply(*node.op, node.attrs, in, node.line, node.regions);
    }
  }
  return values[size_t(target.node)][size_t(target.result)];
}

std::string Trace::name_of(ir::Value v) const {
  const ir::Node& node = graph[v];
  if (node.op == &ops::def::input)
    if (const std::string& name = ir::attrs_of<ir::InputAttrs>(*node.attrs).name; !name.empty()) return name + ":0";
  int earlier = 0;
  for (int n = 0; n < v.node; ++n) earlier += graph[n].op == node.op && graph[n].scope == node.scope;
  return cat(node.scope, node.op->name, earlier ? "_" + std::to_string(earlier) : "", ":", v.result);
}

Tensor tensor_of(const ir::Literal& literal) {
  if (literal.bytes) return constant(literal.bytes->data(), literal.type);
  return full(literal.type.shape, 0, literal.type.dtype);
}

}  // namespace lamina
