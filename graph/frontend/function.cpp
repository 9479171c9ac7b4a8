#include "graph/frontend/function.h"

#include <algorithm>
#include <chrono>

#include "graph/frontend/data_parallel.h"
#include "graph/frontend/device.h"
#include "graph/frontend/signature.h"
#include "graph/frontend/trace_turn.h"
#include "runtime/core/mutex.h"
#include "runtime/device/profiler.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/world.h"

namespace lamina {
namespace {
std::atomic<void (*)()> garbage_collector{nullptr};
std::atomic<void (*)(const std::string&, int, const TraceRecord&)> retrace_observer{nullptr};
}  // namespace
void set_garbage_collector(void (*collect)()) { garbage_collector = collect; }
void set_retrace_observer(void (*observe)(const std::string&, int, const TraceRecord&)) { retrace_observer = observe; }

namespace {
// Nesting depth of traced functions on this thread.
struct Depth {
  static thread_local int now;
  const int around = now++;
  Depth() = default;
  ~Depth() { --now; }
  Depth(const Depth&) = delete;
};
thread_local int Depth::now = 0;
constexpr int kMostNested = 100;  // traces of one function inside each other
}  // namespace

struct Function::Entry {
  Signature signature;
  std::shared_ptr<ConcreteFunction> graph;
  Entry* next = nullptr;
};

// The table only grows during the Function's life, so readers need no lock.
struct Function::Data {
  static constexpr size_t kBuckets = 64;
  FunctionOptions options;
  std::atomic<Entry*> buckets[kBuckets] = {};
  std::atomic<bool> by_rows{false};
  Mutex mutex;  // for the members below
  std::vector<std::unique_ptr<Entry>> entries;
  std::vector<TraceRecord> records;
  // Graphs that use values of an enclosing trace: not in the table, and kept as long as that trace.
  std::vector<std::pair<std::weak_ptr<Trace>, std::shared_ptr<ConcreteFunction>>> inner;
  int inner_count = 0;
  TraceTurn::State turn;
  std::vector<std::pair<ThreadToken, const Signature*>> tracing;

  ConcreteFunction* find(SignatureView& wanted, const Arguments& arguments) const {
    for (;;) {
      const Entry* e = buckets[wanted.hash % kBuckets].load(std::memory_order_acquire);
      while (e && !wanted.matches(e->signature)) e = e->next;
      if (!e) return nullptr;
      if (arguments.variables.empty() || !wanted.bind(*e->graph)) return e->graph.get();
    }
  }
  ConcreteFunction& insert(Signature signature, std::shared_ptr<ConcreteFunction> graph, TraceRecord record);
  ConcreteFunction& trace(const SignatureView& view, const Arguments& arguments, const TracedBody& body);
  uint64_t ranks_of(const SignatureView& view, CallSite at) const;
  void check_created(const Trace& trace, bool first_trace) const;
  Signature::Difference difference(const Signature& now) const;  // from the most similar call
  std::string reasons(const Signature& refused) const;
};

Function::Function(FunctionOptions options) : data_(std::make_shared<Data>()) {
  const bool too_few = options.trace_limit < 1;
  if (too_few || options.memory_budget < 0)
    throw Error(ErrorKind::invalid_argument,
                {.what = too_few ? cat(options.name, ": the limit of traces is ", options.trace_limit)
                                 : cat(options.name, ": the memory budget is ", options.memory_budget, " bytes"),
                 .where = "",
                 .why = too_few ? "a function is traced at its first call" : "memory is counted in bytes; 0 is no limit",
                 .fix = too_few ? "pass 1 or more" : "pass 0 or more"});
  data_->options = std::move(options);
}

ConcreteFunction* Function::find(const Arguments& arguments) const {
  SignatureView view(arguments, data_->options);
  return data_->find(view, arguments);
}

bool Function::by_rows() const { return data_->by_rows.load(std::memory_order_acquire); }

uint64_t Function::ranks_of(const Arguments& arguments) const {
  return data_->ranks_of(SignatureView(arguments, data_->options), arguments.at);
}

uint64_t Function::Data::ranks_of(const SignatureView& view, CallSite at) const {
  if (distributed::in_whole_batch()) return 1;
  distributed::Communicator& c = distributed::current();
  if (c.size() == 1) return 0;
  const auto own = int64_t(view.hash);
  std::vector<int64_t> all(size_t(c.size()));
  const std::string line = text(at.line());
  distributed::all_gather(c, DType::i64, &own, all.data(), 1, {.tensor = cat("arguments of ", options.name), .line = line});
  uint64_t hash = 0;
  for (int64_t one : all) hash = (hash ^ uint64_t(one)) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  return hash;
}

ConcreteFunction& Function::get(const Arguments& arguments, const TracedBody& body) const {
  Data& d = *data_;
  SignatureView view(arguments, d.options);
  view.check(d.options);
  if (ConcreteFunction* found = d.find(view, arguments)) return *found;
  TraceTurn turn(d.turn);
  for (;;) {
    if (ConcreteFunction* found = d.find(view, arguments)) return *found;
    ConcreteFunction& made = d.trace(view, arguments, body);
    // A Variable that is an argument and is used directly too needs a graph that knows they are one.
    if (arguments.variables.empty() || !view.bind(made)) return made;
  }
}

ConcreteFunction& Function::Data::insert(Signature signature, std::shared_ptr<ConcreteFunction> graph, TraceRecord record) {
  std::lock_guard lock(mutex);
  records.push_back(std::move(record));
  try {
    entries.push_back(std::make_unique<Entry>(Entry{std::move(signature), std::move(graph), nullptr}));
  } catch (...) {
    records.pop_back();
    throw;
  }
  // Visible to find() from here on; nothing can fail any more.
  Entry* entry = entries.back().get();
  std::atomic<Entry*>& bucket = buckets[entry->signature.hash % kBuckets];
  entry->next = bucket.load(std::memory_order_relaxed);
  bucket.store(entry, std::memory_order_release);
  return *entry->graph;
}

ConcreteFunction& Function::Data::trace(const SignatureView& view, const Arguments& arguments, const TracedBody& body) {
  Signature signature = view.keep();
  const std::string line = text(arguments.at.line());
  size_t traced;
  {
    std::lock_guard lock(mutex);
    traced = entries.size();
    for (auto& [thread, running] : tracing)
      if (thread == this_thread() && view.matches(*running))
        throw Error(ErrorKind::conversion, {.what = cat(options.name, ": it calls itself with the same signature while it is traced"),
                                            .where = line,
                                            .why = "a traced function is unrolled, and this call has no end",
                                            .fix = "end the recursion with a Python value that changes, or use a loop"});
    if (std::count_if(tracing.begin(), tracing.end(), [](auto& one) { return one.first == this_thread(); }) >= kMostNested)
      throw Error(ErrorKind::conversion,
                  {.what = cat(options.name, ": it calls itself more than ", kMostNested, " deep while it is traced"),
                   .where = line,
                   .why = "a traced function is unrolled, and each call has another signature",
                   .fix = "end the recursion with a Python value that changes, or use a loop"});
    if (int(traced) >= options.trace_limit)
      throw Error(ErrorKind::retrace,
                  {.what = cat(options.name, ": it was traced ", traced, traced == 1 ? " time" : " times", ", which is the limit"),
                   .where = line,
                   .why = cat("each call with a new signature traces again:", reasons(signature)),
                   .fix = "pass changing numbers as tensors, give an input_signature with open dimensions, or raise the limit"});
    tracing.emplace_back(this_thread(), &signature);
  }
  struct Finally {
    Data& data;
    const Signature* signature;
    ~Finally() {
      std::lock_guard lock(data.mutex);
      std::erase_if(data.tracing, [&](auto& one) { return one.second == signature; });
    }
  } finally{*this, &signature};

  const profiler::Range range(profiler::listening() ? "trace " + options.name : std::string(), profiler::Kind::function);
  const auto start = std::chrono::steady_clock::now();
  auto trace = std::make_shared<Trace>(options.name, view.device);
  trace->takes_lengths = true;
  const Depth depth;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const std::string name = i < options.argument_names.size() ? options.argument_names[i] : "";
    inputs.push_back(trace->add_input(view.traced_type(i, options, depth.around), name).with(arguments.tensors[i].strength()));
  }
  const std::vector<Variable> variables = view.stand_ins();
  std::vector<Tensor> results;
  Traced traced_body;
  {
    TraceScope scope(trace);
    traced_body = body(inputs, variables);
    trace->add_outputs(traced_body.outputs, arguments.at);
  }
  traced_body.outputs.clear();
  check_created(*trace, traced == 0);
  trace->created.clear();
  std::vector<int> resources;
  for (const Variable& v : variables) {
    auto at = std::find_if(trace->variables.begin(), trace->variables.end(), [&](const Variable& other) { return other.same(v); });
    resources.push_back(at == trace->variables.end() ? -1 : int(at - trace->variables.begin()));
  }
  const double microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  auto graph = std::make_shared<ConcreteFunction>(trace, options.name, inputs.size(), std::move(resources),
                                                  std::move(traced_body.structure), microseconds);
  graph->memory_budget_ = options.memory_budget;
  // A graph that uses values of an enclosing trace is invalid in other traces, and after the names of those values are reused.
  const std::vector<Tensor>& captures = graph->captures();
  const auto around = std::find_if(captures.begin(), captures.end(), [](const Tensor& t) { return t.is_symbolic(); });
  if (around != captures.end()) {
    Trace* outer = Trace::current();
    if (!outer) throw finished_trace(around->handle()->function, cat(line, line.empty() ? "" : ", ", "in '", options.name, "'"));
    std::lock_guard lock(mutex);
    std::erase_if(inner, [](auto& one) { return one.first.expired(); });
    inner.emplace_back(outer->weak_from_this(), graph);
    ++inner_count;
    return *graph;
  }

  if (graph->by_rows()) {
    signature.ranks = arguments.ranks ? *arguments.ranks : ranks_of(view, arguments.at);
    by_rows.store(true, std::memory_order_release);
  }
  signature.arguments = std::move(traced_body.arguments);
  Signature::Difference why = traced ? difference(signature) : Signature::Difference();
  TraceRecord record{signature.text(options), std::move(why.cause), std::move(why.fix), arguments.at.line(), microseconds};
  ConcreteFunction& inserted = insert(Signature(signature), std::move(graph), record);
  if (auto observe = retrace_observer.load(); observe && traced) observe(options.name, int(traced) + 1, record);
  return inserted;
}

// A Variable held only by the graph: without tracing, every call of the function would create a new one.
void Function::Data::check_created(const Trace& trace, bool first_trace) const {
  auto only_the_graph = [&](const Trace::Created& c) {
    long held = 0;
    for (auto& other : trace.created) held += other.variable.same(c.variable);
    for (const Variable& v : trace.variables) held += v.same(c.variable);
    return c.variable.handle().use_count() <= held;
  };
  for (const Trace::Created& c : trace.created) {
    if (first_trace && !only_the_graph(c)) continue;
    if (first_trace)
      if (auto collect = garbage_collector.load()) {
        collect();
        if (!only_the_graph(c)) continue;
      }
    throw Error(
        ErrorKind::invalid_argument,
        {.what = cat(options.name, ": it tried to create Variables on a non-first call: '", c.variable.name(), "' is ",
                     first_trace ? "held by nothing but its graph" : "made although the function was traced before"),
         .where = text(c.line),
         .why = first_trace ? "a traced function makes its state once; a Variable that nobody keeps would be made anew at every call"
                            : "state may only be created on the first call of a traced function",
         .fix = "1. pass the Variable as an argument, 2. make it outside and use it in the function, or 3. keep it in an attribute made on "
                "the first call only (if self.v is None: self.v = lm.Variable(...))"});
  }
}

Signature::Difference Function::Data::difference(const Signature& now) const {
  if (entries.empty()) return {};
  Signature::Difference out = now.difference(entries.back()->signature, options);
  if (!options.advice.empty()) out.fix = options.advice;
  return out;
}

// The records of the last traces: why each was made, for which line, and why another is needed now. Values that are not tensors are
// described in words only when they are traced.
std::string Function::Data::reasons(const Signature& refused) const {
  constexpr size_t kShown = 8;
  std::string out;
  for (size_t i = std::max(records.size(), kShown) - kShown; i < records.size(); ++i)
    out += cat("\n           ", i + 1, ". ", records[i].cause.empty() ? records[i].signature : records[i].cause,
               !records[i].line.known() ? "" : cat(" at ", text(records[i].line)));
  if (refused.statics == entries.back()->signature.statics) out += cat("\n           now: ", difference(refused).cause);
  return out;
}

int Function::trace_count() const {
  std::lock_guard lock(data_->mutex);
  return int(data_->entries.size()) + data_->inner_count;
}
std::vector<TraceRecord> Function::traces() const {
  std::lock_guard lock(data_->mutex);
  return data_->records;
}
std::vector<std::shared_ptr<ConcreteFunction>> Function::concrete_functions() const {
  std::lock_guard lock(data_->mutex);
  std::vector<std::shared_ptr<ConcreteFunction>> out;
  for (auto& e : data_->entries) out.push_back(e->graph);
  return out;
}
const FunctionOptions& Function::options() const { return data_->options; }
std::string Function::str() const {
  const int graphs = trace_count();
  return cat("<lm.Function ", options().name, ", ", graphs, graphs == 1 ? " graph>" : " graphs>");
}

}  // namespace lamina
