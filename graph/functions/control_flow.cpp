#include "graph/functions/control_flow.h"

#include <algorithm>

#include "graph/frontend/eager.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"
#include "runtime/core/common_dtype.h"

namespace lamina::control {
namespace {

using ir::Graph;
using ir::GraphRef;
using ir::Value;

std::string named(const std::vector<std::string>& names, size_t i, size_t count, const char* noun) {
  if (i < names.size() && !names[i].empty()) return cat(noun, " ", names[i]);
  return count == 1 ? noun : cat(noun, " ", i);
}

// Limit of nested branches and bodies: each level uses stack, here and in every pass.
class Depth {
 public:
  explicit Depth(CallSite at) {
    constexpr int kMost = 1000;
    if (depth_ >= kMost)
      throw Error(ErrorKind::conversion, {.what = cat("branches and loops are nested more than ", kMost, " deep"),
                                          .where = text(at),
                                          .why = "each level takes some of the stack while a function is traced and planned",
                                          .fix = "use a loop (lm.while_loop, lm.scan) in place of the recursion"});
    ++depth_;
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;

 private:
  static thread_local int depth_;
};
thread_local int Depth::depth_ = 0;

// One branch or body, traced separately.
struct Region {
  std::shared_ptr<Trace> trace;
  std::vector<Tensor> given;
  std::vector<Tensor> outputs;

  Region(const Trace& outer, const char* what) : trace(std::make_shared<Trace>(cat(what, " of ", outer.function), outer.device)) {
    trace->is_body = true;
  }
  Tensor input(const TensorType& type) {
    given.push_back(trace->add_input(type, ""));
    return given.back();
  }
  template <class F>
  void run(F&& f, Trace& outer, CallSite at) {
    {
      const Depth depth(at);
      TraceScope scope(trace);
      outputs = f();
      trace->add_outputs(outputs, at);
    }
    outer.created.insert(outer.created.end(), trace->created.begin(), trace->created.end());
    trace->created.clear();
  }
  TensorType type(size_t output) const { return trace->graph.type(trace->graph.outputs[output]); }
};

// Outside values that the regions use, each once.
struct Connections {
  std::vector<Tensor> captures;
  std::vector<Variable> variables;
  std::vector<uint8_t> written;

  void add(const Region& region) {
    const Trace& t = *region.trace;
    for (const Tensor& capture : t.captures)
      if (std::none_of(captures.begin(), captures.end(), [&](const Tensor& known) { return known.same(capture); }))
        captures.push_back(capture);
    std::vector<size_t> numbers;
    for (const Variable& v : t.variables) {
      const auto at = std::find_if(variables.begin(), variables.end(), [&](const Variable& known) { return known.same(v); });
      numbers.push_back(size_t(at - variables.begin()));
      if (at == variables.end()) variables.push_back(v), written.push_back(false);
    }
    for (const ir::Node& node : t.graph.nodes())
      if (node.op->effect == ir::Effect::write) written[numbers[size_t(ir::resource_of(node))]] = true;
  }
};

// An input of the finished region.
struct Slot {
  enum class Kind : uint8_t { given, capture, variable };
  Kind kind;
  size_t index;
};

// The region without state: Variables become inputs, and written ones also outputs, inserted before output `state_at`.
GraphRef close(const Region& region, const Connections& outside, const std::vector<Slot>& slots, size_t state_at) {
  const Trace& t = *region.trace;
  const Graph& g = t.graph;
  auto out = std::make_shared<Graph>();
  std::vector<Value> moved(size_t(g.size())), state(outside.variables.size());
  for (const Slot& slot : slots) {
    switch (slot.kind) {
      case Slot::Kind::given:
        moved[size_t(region.given[slot.index].handle()->value.node)] = out->add_input(region.given[slot.index].type());
        break;
      case Slot::Kind::capture: {
        const Value v = out->add_input(outside.captures[slot.index].type());
        for (size_t i = 0; i < t.captures.size(); ++i)
          if (t.captures[i].same(outside.captures[slot.index])) moved[size_t(t.capture_inputs[i].node)] = v;
        break;
      }
      case Slot::Kind::variable:
        state[slot.index] = out->add_input(outside.variables[slot.index].type(), outside.variables[slot.index].name());
        break;
    }
  }
  std::vector<size_t> numbers;
  for (const Variable& v : t.variables)
    for (size_t i = 0; i < outside.variables.size(); ++i)
      if (outside.variables[i].same(v)) numbers.push_back(i);
  auto now = [&](Value v) { return Value{moved[size_t(v.node)].node, moved[size_t(v.node)].result + v.result}; };
  for (int n = 0; n < g.size(); ++n) {
    if (moved[size_t(n)].valid()) continue;
    const ir::Node& node = g[n];
    if (node.op->effect == ir::Effect::read) {
      moved[size_t(n)] = state[numbers[size_t(ir::resource_of(node))]];
    } else if (node.op->effect == ir::Effect::write) {
      state[numbers[size_t(ir::resource_of(node))]] = now(node.inputs[0]);
    } else {
      std::vector<Value> in;
      for (Value v : node.inputs) in.push_back(now(v));
      moved[size_t(n)] = out->copy(node, std::move(in));
    }
  }
  for (size_t i = 0; i <= g.outputs.size(); ++i) {
    if (i == state_at)
      for (size_t v = 0; v < state.size(); ++v)
        if (outside.written[v]) out->outputs.push_back(state[v]);
    if (i < g.outputs.size()) out->outputs.push_back(now(g.outputs[i]));
  }
  return out;
}

// The node's operands in slot order; and its results: state is assigned, the rest is returned.
class Node {
 public:
  Node(Trace& trace, const Connections& outside, CallSite at) : trace_(trace), outside_(outside), at_(at) {
    for (const Variable& v : outside.variables) reads_.push_back(trace.read(v, at));
  }
  void add(Tensor t) { inputs_.push_back(std::move(t)); }
  void add(const std::vector<Slot>& slots, std::span<const Tensor> given) {
    for (const Slot& s : slots)
      add(s.kind == Slot::Kind::given ? given[s.index] : s.kind == Slot::Kind::capture ? outside_.captures[s.index] : reads_[s.index]);
  }
  std::vector<Tensor> run(const ir::OpDef& op, ir::AttrsRef attrs, std::initializer_list<GraphRef> regions, size_t state_at) {
    std::vector<Tensor> results = apply(op, std::move(attrs), inputs_, at_, std::vector<GraphRef>(regions)), out;
    size_t next = 0;
    for (; next < state_at; ++next) out.push_back(results[next]);
    for (size_t v = 0; v < outside_.variables.size(); ++v)
      if (outside_.written[v]) trace_.assign(outside_.variables[v], results[next++], at_);
    for (; next < results.size(); ++next) out.push_back(results[next]);
    return out;
  }

 private:
  Trace& trace_;
  const Connections& outside_;
  CallSite at_;
  std::vector<Tensor> reads_, inputs_;
};

void add_slots(std::vector<Slot>& slots, Slot::Kind kind, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) slots.push_back({kind, i});
}
// Variables that are written, or those that are not.
void add_variables(std::vector<Slot>& slots, const Connections& outside, bool written) {
  for (size_t v = 0; v < outside.variables.size(); ++v)
    if (bool(outside.written[v]) == written) slots.push_back({Slot::Kind::variable, v});
}

void refuse_assignments(const Connections& outside, const char* who, const char* why, const char* fix, CallSite at) {
  for (size_t v = 0; v < outside.variables.size(); ++v)
    if (outside.written[v])
      throw Error(
          ErrorKind::invalid_argument,
          {.what = cat(who, " assigns the variable '", outside.variables[v].name(), "'"), .where = text(at), .why = why, .fix = fix});
}

void check_condition(const char* op, const TensorType& type, CallSite at) {
  if (type.dtype == DType::boolean && type.shape.empty()) return;
  const bool one = type.shape.empty();
  throw Error(one ? ErrorKind::type : ErrorKind::invalid_argument,
              {.what = cat(op, ": the condition is ", type),
               .where = text(at),
               .why = "a condition is one bool",
               .fix = one ? "compare it: x != 0" : "reduce it to one, or choose element by element: lm.where(condition, a, b)"});
}

std::string keep(const TensorType& now, const TensorType& wanted, const char* where) {
  const bool becomes_floating = is_floating(wanted.dtype) && !is_floating(now.dtype);
  if (const DType both = common_dtype(now.dtype, wanted.dtype); both != wanted.dtype && !becomes_floating)
    return cat("convert it everywhere: lm.astype(x, lm.", numpy_name(both), ")");
  if (now.dtype != wanted.dtype) return cat("convert it in ", where, ": lm.astype(x, lm.", numpy_name(wanted.dtype), ")");
  return cat("reshape, slice or pad it in ", where, " to (", text(wanted.shape), ")");
}

void check_same_results(const std::vector<TensorType>& a, const std::vector<TensorType>& b, const std::vector<std::string>& names,
                        CallSite at) {
  if (a.size() != b.size())
    throw Error(ErrorKind::invalid_argument, {.what = cat("cond: one branch returns ", a.size(), " tensors, the other ", b.size()),
                                              .where = text(at),
                                              .why = "what follows the branches is one graph for both",
                                              .fix = "return the same structure from both"});
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i]))
      throw Error(
          a[i].dtype == b[i].dtype ? ErrorKind::invalid_argument : ErrorKind::type,
          {.what = cat("cond: ", named(names, i, a.size(), "result"), " is ", a[i], " in the first branch and ", b[i], " in the second"),
           .where = text(at),
           .why = "what follows the branches is one graph for both",
           .fix = keep(b[i], a[i], "the second branch")});
}

void check_carried(const char* op, const std::vector<TensorType>& before, const std::vector<TensorType>& after,
                   const std::vector<std::string>& names, CallSite at) {
  for (size_t i = 0; i < before.size(); ++i)
    if (!(before[i] == after[i]))
      throw Error(
          before[i].dtype == after[i].dtype ? ErrorKind::invalid_argument : ErrorKind::type,
          {.what = cat(op, ": the ", named(names, i, before.size(), "loop variable"), " starts as ", before[i], " and becomes ", after[i]),
           .where = text(at),
           .why = "a loop variable keeps its dtype and shape from iteration to iteration",
           .fix = cat(keep(after[i], before[i], "the body"), ", or start with ", after[i])});
}

void check_count(const char* op, size_t got, size_t wanted, CallSite at) {
  if (got != wanted)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": the body returns ", got, " loop variables"),
                                              .where = text(at),
                                              .why = cat("it was given ", wanted),
                                              .fix = "return as many, in the same structure"});
}

std::vector<TensorType> types_of(std::span<const Tensor> tensors) {
  std::vector<TensorType> out;
  for (const Tensor& t : tensors) out.push_back(t.type());
  return out;
}
std::vector<TensorType> types_of(const Region& region, size_t count) {
  std::vector<TensorType> out;
  for (size_t i = 0; i < count; ++i) out.push_back(region.type(i));
  return out;
}

}  // namespace

std::vector<Tensor> cond(const Operand& pred, const Branch& then, const Branch& otherwise, const std::vector<std::string>& names) {
  const CallSite at = pred.at();
  if (pred.kind() == Operand::Kind::boolean) return pred.number() != 0 ? then() : otherwise();
  const Tensor chosen = pred.resolve();
  check_condition("cond", chosen.type(), at);
  Trace* trace = Trace::current();
  if (!trace) return chosen.item<bool>() ? then() : otherwise();
  Region a(*trace, "a branch"), b(*trace, "a branch");
  a.run(then, *trace, at);
  b.run(otherwise, *trace, at);
  check_same_results(types_of(a, a.outputs.size()), types_of(b, b.outputs.size()), names, at);
  Connections outside;
  outside.add(a);
  outside.add(b);
  std::vector<Slot> slots;
  add_slots(slots, Slot::Kind::capture, 0, outside.captures.size());
  add_slots(slots, Slot::Kind::variable, 0, outside.variables.size());
  Node node(*trace, outside, at);
  node.add(chosen);
  node.add(slots, {});
  const size_t results = a.outputs.size();
  return node.run(ops::def::cond, nullptr, {close(a, outside, slots, results), close(b, outside, slots, results)}, results);
}

Count count(int64_t lower, int64_t upper, CallSite at) {
  Count out;
  if (upper <= lower) return out;
  if (__builtin_sub_overflow(upper, lower, &out.iterations))
    throw Error(ErrorKind::invalid_argument, {.what = cat("fori_loop: from ", lower, " to ", upper),
                                              .where = text(at.line()),
                                              .why = "these are more iterations than an int64 counts",
                                              .fix = "use while_loop for a loop that ends by itself"});
  if (lower < std::numeric_limits<int32_t>::min() || upper > std::numeric_limits<int32_t>::max()) out.dtype = DType::i64;
  return out;
}

void require_index(const Tensor& index, CallSite at) {
  const DType dtype = Operand(index, at).resolve().dtype();
  if (is_integer(dtype)) return;
  throw Error(ErrorKind::type, {.what = cat("switch_case: the index is ", index.type()),
                                .where = text(at.line()),
                                .why = "it counts branches",
                                .fix = "pass an integer: lm.astype(x, lm.int32)"});
}

std::vector<Tensor> checkpoint(const Branch& body, CallSite at) {
  Trace* trace = Trace::current();
  if (!trace) return body();
  Region region(*trace, "a checkpoint");
  region.run(body, *trace, at);
  Connections outside;
  outside.add(region);
  std::vector<Slot> slots;
  add_slots(slots, Slot::Kind::capture, 0, outside.captures.size());
  add_slots(slots, Slot::Kind::variable, 0, outside.variables.size());
  Node node(*trace, outside, at);
  node.add(slots, {});
  const size_t results = region.outputs.size();
  return node.run(ops::def::checkpoint, nullptr, {close(region, outside, slots, results)}, results);
}

std::vector<Tensor> while_loop(const Condition& condition, const Body& body, std::vector<Tensor> init, const LoopOptions& options,
                               CallSite at) {
  constexpr const char* kName = "while_loop";
  if (options.maximum_iterations < -1)
    throw Error(ErrorKind::invalid_argument, {.what = cat("while_loop: the maximum of iterations is ", options.maximum_iterations),
                                              .where = text(at),
                                              .why = "it is 0 or more",
                                              .fix = "leave it out for no limit"});
  const std::vector<TensorType> types = types_of(init);
  Trace* trace = Trace::current();
  if (!trace) {
    for (int64_t done = 0; options.maximum_iterations < 0 || done < options.maximum_iterations; ++done) {
      const Tensor go_on = condition(init);
      check_condition(kName, go_on.type(), at);
      if (!go_on.item<bool>()) break;
      std::vector<Tensor> next = body(init);
      check_count(kName, next.size(), init.size(), at);
      check_carried(kName, types, types_of(next), options.names, at);
      init = std::move(next);
    }
    return init;
  }
  Region test(*trace, "the condition of a loop"), step(*trace, "the body of a loop");
  for (const TensorType& type : types) test.input(type), step.input(type);
  test.run([&] { return std::vector{condition(test.given)}; }, *trace, at);
  check_condition(kName, test.type(0), at);
  step.run([&] { return body(step.given); }, *trace, at);
  check_count(kName, step.outputs.size(), init.size(), at);
  check_carried(kName, types, types_of(step, init.size()), options.names, at);
  Connections outside;
  outside.add(test);
  refuse_assignments(outside, "while_loop: the condition", "a condition only looks",
                     "assign it (or draw random numbers) in the body and carry what the condition needs", at);
  outside.add(step);
  std::vector<Slot> slots;
  add_slots(slots, Slot::Kind::given, 0, init.size());
  add_variables(slots, outside, true);
  const size_t carried = slots.size();
  add_slots(slots, Slot::Kind::capture, 0, outside.captures.size());
  add_variables(slots, outside, false);
  Node node(*trace, outside, at);
  node.add(slots, init);
  Connections looks = outside;
  std::fill(looks.written.begin(), looks.written.end(), false);
  std::vector<Tensor> out = node.run(ops::def::while_loop, ir::make_attrs(ops::LoopAttrs{int64_t(carried), options.maximum_iterations}),
                                     {close(test, looks, slots, 1), close(step, outside, slots, init.size())}, init.size());
  out.pop_back();  // the number of iterations
  return out;
}

namespace {

Dim scan_length(const std::vector<Tensor>& xs, const ScanOptions& options, CallSite at) {
  if (xs.empty() && options.length < 0)
    throw Error(
        ErrorKind::invalid_argument,
        {.what = "scan: it has no length", .where = text(at), .why = "there is nothing to go through", .fix = "pass xs, or length="});
  Dim length = options.length >= 0 ? Dim(options.length) : Dim();
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].rank() == 0)
      throw Error(ErrorKind::invalid_argument, {.what = cat("scan: ", xs[i].type(), " has no slices"),
                                                .where = text(at),
                                                .why = "scan goes along the first axis, and a tensor without axes has none",
                                                .fix = "use it in the body as it is"});
    const Dim first = xs[i].shape()[0];
    if (i == 0 && options.length < 0) length = first;
    if (first != length)
      throw Error(
          ErrorKind::invalid_argument,
          {.what = cat("scan: ", xs[i].type(), " has ", first, " slices, and ", length, " are wanted"),
           .where = text(at),
           .why = i || options.length < 0 ? "all stacked tensors are equally long along their first axis" : "length says another number",
           .fix = "cut them to one length"});
  }
  return length;
}

TensorType slice_of(TensorType type) {
  type.shape.erase(type.shape.begin());
  return type;
}

// The types of a body's results after the carried values, without running it.
std::vector<TensorType> result_types(const Body& body, const std::vector<Tensor>& init, const std::vector<Tensor>& xs, CallSite at) {
  auto outer = std::make_shared<Trace>("scan", default_device());
  TraceScope scope(outer);
  Region step(*outer, "the body");
  for (const Tensor& t : init) step.input(t.type());
  for (const Tensor& t : xs) step.input(slice_of(t.type()));
  step.run([&] { return body(step.given); }, *outer, at);
  std::vector<TensorType> types = types_of(step, step.outputs.size());
  types.erase(types.begin(), types.begin() + int64_t(std::min(init.size(), types.size())));
  return types;
}

std::vector<Tensor> scan_eagerly(const Body& body, std::vector<Tensor> carried, const std::vector<Tensor>& xs, int64_t length,
                                 const ScanOptions& options, CallSite at) {
  const std::vector<TensorType> types = types_of(carried);
  std::vector<std::vector<Tensor>> ys;
  for (int64_t i = 0; i < length; ++i) {
    const Tensor at_slice = scalar_i(options.reverse ? length - 1 - i : i, DType::i64);
    std::vector<Tensor> in = carried;
    for (const Tensor& x : xs) in.push_back(gather(Operand(x, at), Operand(at_slice, at)));
    std::vector<Tensor> out = body(in);
    if (out.size() < carried.size()) check_count("scan", out.size(), carried.size(), at);
    check_carried("scan", types, types_of(std::span(out).first(carried.size())), options.names, at);
    ys.resize(out.size() - carried.size());
    for (size_t y = 0; y < ys.size(); ++y) ys[y].push_back(out[carried.size() + y]);
    out.resize(carried.size());
    carried = std::move(out);
  }
  if (length == 0)
    for (TensorType type : result_types(body, carried, xs, at)) {
      type.shape.insert(type.shape.begin(), Dim(0));
      carried.push_back(zeros(type.shape, type.dtype));
    }
  for (std::vector<Tensor>& y : ys) {
    if (options.reverse) std::reverse(y.begin(), y.end());
    carried.push_back(stack(y, 0, at));
  }
  return carried;
}

}  // namespace

std::vector<Tensor> scan(const Body& body, std::vector<Tensor> init, std::vector<Tensor> xs, const ScanOptions& options, CallSite at) {
  const Dim length = scan_length(xs, options, at);
  Trace* trace = Trace::current();
  if (!trace) return scan_eagerly(body, std::move(init), xs, length.number(), options, at);
  const std::vector<TensorType> types = types_of(init);
  Region step(*trace, "the body of a loop");
  for (const TensorType& type : types) step.input(type);
  for (const Tensor& x : xs) step.input(slice_of(x.type()));
  step.run([&] { return body(step.given); }, *trace, at);
  if (step.outputs.size() < init.size()) check_count("scan", step.outputs.size(), init.size(), at);
  check_carried("scan", types, types_of(step, init.size()), options.names, at);
  Connections outside;
  outside.add(step);
  std::vector<Slot> slots;
  add_slots(slots, Slot::Kind::given, 0, init.size());
  add_variables(slots, outside, true);
  const size_t carried = slots.size(), before = init.size();
  add_slots(slots, Slot::Kind::given, before, before + xs.size());
  add_slots(slots, Slot::Kind::capture, 0, outside.captures.size());
  add_variables(slots, outside, false);
  init.insert(init.end(), xs.begin(), xs.end());
  Node node(*trace, outside, at);
  node.add(slots, init);
  return node.run(ops::def::scan, ir::make_attrs(ops::ScanAttrs{int64_t(carried), int64_t(xs.size()), {length}, options.reverse, false}),
                  {close(step, outside, slots, before)}, before);
}

std::vector<Tensor> custom_gradient(const std::function<WithGradient(std::span<const Tensor>)>& body, const std::vector<Tensor>& inputs,
                                    CallSite at) {
  // The body is traced even outside of a trace, so that a tape sees one op.
  std::shared_ptr<Trace> own;
  Trace* trace = Trace::current();
  if (!trace) own = std::make_shared<Trace>("a function with its own gradient", default_device()), trace = own.get();
  Region region(*trace, "the body");
  for (const Tensor& t : inputs) region.input(t.type());
  size_t results = 0, cotangents = 0;
  region.run(
      [&] {
        const WithGradient made = body(region.given);
        std::vector<Tensor> out = made.results, given;
        results = out.size();
        for (const Tensor& t : made.results)
          if (has_gradients(t.dtype())) given.push_back(region.input(t.type())), ++cotangents;
        const std::vector<Tensor> gradients = made.gradient(given);
        if (gradients.size() != inputs.size())
          throw Error(ErrorKind::invalid_argument,
                      {.what = cat("custom_gradient: the gradient function returns ", gradients.size(), " gradients"),
                       .where = text(at),
                       .why = cat("there are ", inputs.size(), " inputs"),
                       .fix = "return one per input, lm.zeros_like(x) where none flows"});
        for (size_t i = 0; i < gradients.size(); ++i)
          if (!(gradients[i].type() == inputs[i].type()))
            throw Error(
                gradients[i].dtype() == inputs[i].dtype() ? ErrorKind::invalid_argument : ErrorKind::type,
                {.what = cat("custom_gradient: the gradient of input ", i, " is ", gradients[i].type(), ", the input ", inputs[i].type()),
                 .where = text(at),
                 .why = "a gradient has the dtype and shape of its input",
                 .fix = "convert it with astype, or sum it over the axes that were broadcast"});
        out.insert(out.end(), gradients.begin(), gradients.end());
        return out;
      },
      *trace, at);
  Connections outside;
  outside.add(region);
  refuse_assignments(outside, "custom_gradient: the function", "it may be computed again for the gradient",
                     "return the value and assign it outside", at);
  // Both share one graph: the gradient may use values of the body.
  std::vector<Slot> slots;
  add_slots(slots, Slot::Kind::given, 0, inputs.size());
  add_slots(slots, Slot::Kind::capture, 0, outside.captures.size());
  add_variables(slots, outside, false);
  std::vector<Slot> all = slots;
  add_slots(all, Slot::Kind::given, inputs.size(), inputs.size() + cotangents);
  const GraphRef both = close(region, outside, all, 0);
  auto backward = std::make_shared<Graph>(ir::without_host_effects(*both));
  backward->outputs.erase(backward->outputs.begin(), backward->outputs.begin() + int64_t(results));
  auto forward = std::make_shared<Graph>();
  std::vector<Value> in;
  for (size_t i = 0; i < slots.size(); ++i) in.push_back(forward->add_input(both->type(both->inputs[i])));
  in.resize(both->inputs.size());
  Graph first = *both;
  first.outputs.resize(results);
  forward->outputs = ops::inline_region(*forward, first, in);
  std::vector<Tensor> values(inputs);
  values.insert(values.end(), outside.captures.begin(), outside.captures.end());
  for (const Variable& v : outside.variables) values.push_back(v.read(at));
  return apply(ops::def::custom_gradient, ir::make_attrs(ops::CustomGradientAttrs{int64_t(inputs.size())}), values, at,
               std::vector<GraphRef>{forward, backward});
}

}  // namespace lamina::control
