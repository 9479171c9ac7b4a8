#include "graph/frontend/concrete_function.h"

#include <array>
#include <chrono>
#include <map>
#include <numeric>

#include "graph/frontend/copied_to.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/plan.h"
#include "graph/frontend/replay.h"
#include "graph/frontend/substitute.h"
#include "graph/frontend/tape_record.h"
#include "graph/ops/ops.h"
#include "graph/ops/short_slices.h"
#include "runtime/core/mutex.h"
#include "runtime/dist/checked_call.h"
#include "runtime/dist/world.h"

namespace lamina {
namespace {

constexpr size_t kMostPlans = 64;

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

TensorSpec spec_of(const ir::Graph& g, ir::Value v) {
  std::string name;
  if (g[v].op == &ops::def::input) name = ir::attrs_of<ir::InputAttrs>(*g[v].attrs).name;
  return {g.type(v).shape, g.type(v).dtype, name};
}

// A few values on the stack, more on the heap.
template <class T, size_t N>
class Small {
 public:
  explicit Small(size_t size) {
    if (size > N) many_.resize(size);
    span_ = size > N ? std::span<T>(many_) : std::span<T>(few_.data(), size);
  }
  Small(const Small&) = delete;
  T& operator[](size_t i) { return span_[i]; }
  std::span<T> span() { return span_; }

 private:
  std::array<T, N> few_{};
  std::vector<T> many_;
  std::span<T> span_;
};

}  // namespace

Dim any_length() { return Dim::symbol("any"); }
Dim open_length(int depth, size_t argument, size_t axis) { return Dim::symbol(cat("n", depth, "_", argument, "_", axis)); }
bool is_open_length(Dim d) {
  if (d.known()) return false;
  const std::string name = d.text();
  int parts = 0;
  for (size_t i = 1; i < name.size(); ++i) {
    if (name[i] == '_')
      ++parts;
    else if (!std::isdigit(static_cast<unsigned char>(name[i])))
      return false;
  }
  return name[0] == 'n' && parts == 2;
}

std::string TensorSpec::str() const {
  return cat("TensorSpec(shape=", shape_text(shape), ", dtype=", numpy_name(dtype), name.empty() ? "" : cat(", name='", name, "'"), ")");
}

ConcreteFunction::ConcreteFunction(std::shared_ptr<Trace> trace, std::string name, size_t arguments, std::vector<int> argument_resources,
                                   std::shared_ptr<void> structure, double trace_microseconds)
    : name_(std::move(name)),
      device_(trace->device),
      by_rows_(trace->by_rows),
      graph_(std::move(trace->graph)),
      arguments_(arguments),
      variables_(trace->variables),
      argument_resources_(std::move(argument_resources)),
      captures_(trace->captures),
      structure_(std::move(structure)),
      traced_lengths_(trace->lengths),
      trace_microseconds_(trace_microseconds) {
  graph_.place = {};
  has_collectives_ = std::any_of(graph_.nodes().begin(), graph_.nodes().end(), ir::has_collective);
  for (ir::Value input : graph_.inputs) input_devices_.push_back(graph_[input].device.value_or(device_));
  for (size_t i = 0; i < captures_.size(); ++i) input_devices_[arguments_ + i] = captures_[i].device();
  for (const Variable& v : variables_) variable_devices_.push_back(v.device());
  for (size_t i = 0; i < arguments_; ++i) {
    const Shape& shape = graph_.type(graph_.inputs[i]).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (!shape[axis].known()) open_dims_.emplace_back(int(i), int(axis));
  }
  add_lengths(*trace);
}
ConcreteFunction::~ConcreteFunction() = default;

std::vector<TensorSpec> ConcreteFunction::inputs() const {
  std::vector<TensorSpec> out;
  for (size_t i = 0; i < arguments_; ++i) out.push_back(spec_of(graph_, graph_.inputs[i]));
  return out;
}
std::vector<TensorSpec> ConcreteFunction::outputs() const {
  std::vector<TensorSpec> out;
  for (ir::Value v : graph_.outputs) out.push_back({graph_.type(v).shape, graph_.type(v).dtype, ""});
  return out;
}

Error empty_argument(const std::string& function, size_t argument, const std::string& name, CallSite at) {
  return Error(ErrorKind::invalid_argument,
               {.what = cat(function, ": argument ", argument, name.empty() ? "" : cat(" ('", name, "')"), " is an empty Tensor"),
                .where = text(at),
                .why = "it was never given a value: a gradient that nothing connects, or a default-constructed Tensor",
                .fix = "test it with defined() before using it"});
}

void ConcreteFunction::check(std::span<const Tensor> arguments, std::span<const Variable> variables) const {
  auto refuse = [&](std::string what, std::string wanted, std::string given) {
    throw Error(ErrorKind::signature, {.what = cat(name_, ": ", what),
                                       .where = "",
                                       .why = cat("this graph takes ", wanted, ", it was given ", given),
                                       .fix = "pass what it was traced for, or call the function, which traces again"});
  };
  if (arguments.size() != arguments_ || variables.size() != argument_resources_.size())
    refuse("a wrong number of arguments", cat(arguments_, " tensors and ", argument_resources_.size(), " Variables"),
           cat(arguments.size(), " and ", variables.size()));
  DimBindings lengths;
  for (size_t i = 0; i < arguments_; ++i) {
    const TensorSpec want = spec_of(graph_, graph_.inputs[i]);
    if (!arguments[i].defined()) throw empty_argument(name_, i, want.name, {});
    const TensorType& given = arguments[i].type();
    bool fits = want.dtype == given.dtype && want.shape.size() == given.rank();
    for (size_t d = 0; fits && d < want.shape.size(); ++d)
      fits = want.shape[d] == given.shape[d] ||
             (!want.shape[d].known() && (!given.shape[d].known() || match(want.shape[d], given.shape[d].number(), lengths)));
    if (!fits)
      refuse(cat("argument ", i, want.name.empty() ? "" : cat(" ('", want.name, "')"), " does not fit"), want.str(),
             TensorSpec{given.shape, given.dtype, ""}.str());
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    const int resource = argument_resources_[i];
    if (resource >= 0 && !(variables[i].type() == variables_[size_t(resource)].type()))
      refuse(cat("Variable argument ", i, " does not fit"), cat("a Variable of ", variables_[size_t(resource)].type()),
             cat(variables[i].type()));
    if (resource < 0) continue;
    const auto other = [&] {
      refuse(cat("Variable argument ", i, " does not fit"), "Variables that are the same, or different, as they were when it was traced",
             "others");
    };
    for (size_t k = 0; k < i; ++k)
      if (argument_resources_[k] >= 0 && (argument_resources_[k] == resource) != variables[i].same(variables[k])) other();
    for (size_t k = 0; k < variables_.size(); ++k)
      if (!variables_[k].handle()->stand_in && variables_[k].same(variables[i]) != (int(k) == resource)) other();
  }
}

std::vector<Tensor> ConcreteFunction::call(std::span<const Tensor> arguments, std::span<const Variable> variables, CallSite at) {
  check(arguments, variables);
  return call_matched(arguments, variables, at);
}

std::vector<Variable> ConcreteFunction::bound(std::span<const Variable> arguments) const {
  std::vector<Variable> out = variables_;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (argument_resources_[i] >= 0) out[size_t(argument_resources_[i])] = arguments[i];
  if (Substitute* substitute = Substitute::current())
    for (Variable& v : out)
      if (v.same(substitute->of())) v = substitute->by();
  return out;
}

std::vector<Tensor> ConcreteFunction::call_matched(std::span<const Tensor> arguments, std::span<const Variable> variables, CallSite at) {
  if (Trace* trace = Trace::current()) return inlined(*trace, arguments, variables, at);
  if (recording() && tape_wants(arguments, variables)) return replay(arguments, variables);
  if (Plan* plan = only_plan_.load(std::memory_order_acquire)) return run(*plan, arguments, variables);
  Call call{arguments, variables, {}};
  find_lengths(call);
  return run_planned(call);
}

std::vector<Tensor> ConcreteFunction::inline_changed(std::span<const Tensor> arguments, const Trace::Changes& changes, CallSite at) {
  check(arguments, {});
  if (!Trace::current()) internal_error("a graph is inlined where no function is traced");
  return inlined(*Trace::current(), arguments, {}, at, &changes);
}

std::vector<Tensor> ConcreteFunction::inlined(Trace& trace, std::span<const Tensor> arguments, std::span<const Variable> variables,
                                              CallSite at, const Trace::Changes* changes) {
  if (!lengths_.empty())
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(name_, ": a list grows in it, and it is called while ", trace.function, " is traced"),
                 .where = text(at.line()),
                 .why = "how long the list becomes is computed before the whole graph runs, and this one is only a part",
                 .fix = "call it as a plain function, without lm.function of its own"});
  trace.by_rows = trace.by_rows || by_rows_;
  std::vector<Tensor> inputs(arguments.begin(), arguments.end());
  inputs.insert(inputs.end(), captures_.begin(), captures_.end());
  std::vector<TensorType> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  // A graph traced in terms of the caller's unknown lengths fits without changes.
  bool same = true;
  for (auto [argument, axis] : open_dims_) same &= types[size_t(argument)] == graph_.type(graph_.inputs[size_t(argument)]);
  if (same) return trace.inline_graph(graph_, inputs, bound(variables), at, changes);
  return trace.inline_graph(specialized(ir::bind_dims(graph_, types)), inputs, bound(variables), at, changes);
}

ir::Graph ConcreteFunction::specialized(const DimBindings& lengths) const {
  std::optional<ir::Graph> short_slices = ops::with_short_slices(graph_, lengths);
  return short_slices ? std::move(*short_slices) : ir::specialize(graph_, lengths);
}

void ConcreteFunction::prepare(std::span<const Tensor> arguments, std::span<const Variable> variables) {
  Call call{arguments, variables, {}};
  if (Trace::current()) {
    specialized(bindings(call));
    return;
  }
  find_lengths(call);
  if (recording() && tape_wants(arguments, variables))
    specialized(bindings(call));
  else
    plan_for(call);
}

std::vector<Tensor> ConcreteFunction::run_planned(const Call& call) {
  std::shared_ptr<Plan> plan = plan_for(call);
  return run(*plan, call.arguments, call.variables);
}

std::vector<Tensor> ConcreteFunction::run(Plan& plan, std::span<const Tensor> arguments, std::span<const Variable> variables) {
  Small<BufferRef, 8> inputs(arguments.size() + captures_.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const TensorData& t = *arguments[i].handle();
    if (!t.buffer) arguments[i].concrete("the value");  // throws
    const Device wanted = plan.executor.program().input_devices[i];
    inputs[i] = t.device == wanted ? t.buffer : copied_to(arguments[i], wanted).buffer();
  }
  for (size_t i = 0; i < captures_.size(); ++i) inputs[arguments.size() + i] = captures_[i].buffer();
  // The graph's Variables, with this call's arguments in place of the stand-ins.
  std::span<exec::VariableState* const> states = plan.states;
  Substitute* substitute = Substitute::current();
  const bool others = !variables.empty() || substitute;
  Small<exec::VariableState*, 8> patched(others ? plan.states.size() : 0);
  if (others) {
    std::copy(plan.states.begin(), plan.states.end(), patched.span().begin());
    for (size_t i = 0; i < variables.size(); ++i)
      if (argument_resources_[i] >= 0) patched[size_t(argument_resources_[i])] = &variables[i].state();
    for (exec::VariableState*& state : patched.span())
      if (substitute && state == &substitute->of().state()) state = &substitute->by().state();
    states = patched.span();
  }
  const int64_t run = plan.runs.fetch_add(1, std::memory_order_relaxed);
  const profiler::Scope range(profiler::listening() ? &plan.name : nullptr, run);
  const bool timed = run % 16 == 0;
  const auto start = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  const auto execute = [&] { return plan.executor.run(inputs.span(), states); };
  std::vector<BufferRef> buffers = has_collectives_ ? distributed::in_graph_call(distributed::current(), execute) : execute();
  if (timed) plan.microseconds.store(microseconds_since(start), std::memory_order_relaxed);
  std::vector<Tensor> out;
  out.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) out.emplace_back(std::move(buffers[i]), plan.outputs[i]);
  return out;
}

std::shared_ptr<ConcreteFunction::Plan> ConcreteFunction::plan_for(const Call& call) {
  std::vector<int64_t> lengths = call.lengths;
  for (auto [argument, axis] : open_dims_) lengths.push_back(call.arguments[size_t(argument)].shape()[size_t(axis)].number());
  if (device_.kind == DeviceKind::gpu)  // Plan::by_place
    for (const Tensor& t : call.arguments) lengths.push_back(t.device().kind == DeviceKind::cpu);
  std::lock_guard lock(mutex_);
  for (auto at = plans_.begin(); at != plans_.end(); ++at)
    if (at->first == lengths) {
      plans_.splice(plans_.begin(), plans_, at);
      return at->second;
    }
  std::shared_ptr<Plan> plan = make_plan(call);
  plans_.emplace_front(std::move(lengths), plan);
  if (plans_.size() > kMostPlans) plans_.pop_back();
  if (open_dims_.empty() && lengths_.empty() && !plan->by_place) only_plan_.store(plan.get(), std::memory_order_release);
  return plan;
}

std::shared_ptr<ConcreteFunction::Plan> ConcreteFunction::make_plan(const Call& call) {
  const profiler::Range range(profiler::listening() ? "compile " + name_ : std::string(), profiler::Kind::function);
  const compile::Options options{.device = device_,
                                 .input_devices = input_devices_,
                                 .variable_devices = variable_devices_,
                                 .sections = true,
                                 .threads = 0,
                                 .memory_budget = memory_budget_};
  const bool open = !(open_dims_.empty() && lengths_.empty());
  std::vector<Device> devices;
  for (const Tensor& t : call.arguments) devices.push_back(t.device());
  const compile::Planned made = planner_.plan(options, open ? bindings(call) : DimBindings{}, devices);
  const std::shared_ptr<const exec::Program>& program = made.program;
  auto plan = std::make_shared<Plan>(program, name_);
  plan->by_place = made.by_place;
  for (const TensorType& type : program->outputs) plan->outputs.push_back(std::make_shared<const TensorType>(type));
  for (const Variable& v : variables_) plan->states.push_back(&v.state());
  plan->compile_microseconds = made.microseconds;
  return plan;
}

int ConcreteFunction::plan_count() const {
  std::lock_guard lock(const_cast<Mutex&>(mutex_));
  return int(plans_.size());
}

int64_t ConcreteFunction::temporary_bytes() {
  std::lock_guard lock(mutex_);
  if (plans_.empty()) return 0;
  const std::vector<int64_t>& bytes = plans_.front().second->executor.program().arena_bytes;
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

std::optional<ConcreteFunction::UnrolledLoop> ConcreteFunction::unrolled_loop() const {
  constexpr int kMostParts = 500;  // of one tensor, taken on one line
  std::map<ir::Value, UnrolledLoop> loops;
  for (const ir::Node& node : graph_.nodes()) {
    if (node.op != &ops::def::slice || !node.line.known()) continue;
    UnrolledLoop& loop = loops.try_emplace(node.inputs[0], node.line, 0).first->second;
    loop = {node.line, loop.line == node.line ? loop.parts + 1 : 1};
    if (loop.parts == kMostParts) return loop;
  }
  return std::nullopt;
}

const ir::Graph& ConcreteFunction::optimized_graph() {
  std::lock_guard lock(mutex_);
  return planner_.passed()->optimized.graph;
}

// Whether a GradientTape outside of any trace must record this call.
bool ConcreteFunction::tape_wants(std::span<const Tensor> arguments, std::span<const Variable> variables) const {
  for (auto& tape : thread_tapes()) {
    if (tape->trace || !tape->listens()) continue;
    for (const Tensor& t : arguments)
      if (tape->tracks(t)) return true;
    for (const Tensor& t : captures_)
      if (tape->tracks(t)) return true;
    for (const Variable& v : variables_)
      if (tape->wants(v)) return true;
    for (const Variable& v : variables)
      if (tape->wants(v)) return true;
  }
  return false;
}

// Runs the traced graph op by op, so that a tape around the call records it.
std::vector<Tensor> ConcreteFunction::replay(std::span<const Tensor> arguments, std::span<const Variable> variables) {
  std::vector<Tensor> inputs(arguments.begin(), arguments.end());
  inputs.insert(inputs.end(), captures_.begin(), captures_.end());
  if (open_dims_.empty() && lengths_.empty()) return lamina::replay(graph_, inputs, bound(variables));
  Call call{arguments, variables, {}};
  find_lengths(call);
  return lamina::replay(specialized(bindings(call)), inputs, bound(variables));
}

}  // namespace lamina
