// lm.Function: the result of lm.function. A Python type of our own instead of nanobind's: for fast cached calls, weak references, and
// garbage collection of cycles (model.call = lm.function(model.call) is one).
#include "python_bindings/src/function.h"

#include <structmember.h>

#include <cstddef>
#include <new>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/data_parallel.h"
#include "graph/frontend/device.h"
#include "python_bindings/src/function_calls.h"
#include "python_bindings/src/live_captures.h"
#include "python_bindings/src/open_lengths.h"
#include "python_bindings/src/trace_warnings.h"
#include "python_bindings/src/trainable.h"
#include "python_bindings/src/training_flag.h"
#include "runtime/dist/world.h"

namespace lamina::python {
namespace {

// The C++ state of a Function.
struct State {
  std::optional<CallBinding> binding;  // the Python function's parameters; from the first call on
  std::optional<std::vector<TensorSpec>> signature;
  std::optional<Function> function;  // from the first call on, when the arguments' names are known
  bool relax_shapes = false;
  // A step of a model: its first lengths (the batches, the smaller last ones) have graphs of their own, and nothing is said about its
  // graphs, since its caller cannot change them.
  bool of_model = false;
  bool autograph = true;
  int64_t memory_budget = 0;
  std::vector<Relaxed> relaxed;
  std::vector<Function> replaced;                                   // by one of a narrower signature: other threads may run its graphs
  int retired_traces = 0;                                           // traces of relaxed graphs replaced by wider ones
  std::vector<std::pair<ConcreteFunction*, nb::object>> concretes;  // the Python objects made for them
  TrainableReads trainable;
  LiveCaptures live;
  bool receives_self = false;  // the first argument is the method's instance, which is not part of the key
  nb::object instance;         // a weak reference to it
  std::string name, advice;    // FunctionOptions
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weak_references;
  PyObject* python_function;
  PyObject* held;       // values that numbers in its keys stand for: see Flattener
  PyObject* instances;  // id of an instance -> (weak reference to it, this method's Function for it); null until needed
  State* state;
};

PyTypeObject* function_type = nullptr;

FunctionObject* self_of(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }

const CallBinding& binding_of(FunctionObject* self) {
  State& state = *self->state;
  if (!state.binding) {
    CallBinding made{nb::handle(self->python_function)};  // runs Python code, so another thread may be first
    if (!state.binding) state.binding = std::move(made);
  }
  return *state.binding;
}

// What selects a graph beside the arguments and training: which layers train, and the tensors in closures, globals and attributes.
std::string outside_key(FunctionObject* self, std::span<PyObject* const> arguments) {
  return self->state->trainable.key() + self->state->live.key({self->python_function, arguments});
}

// One call's arguments: bound to parameters, then flattened.
struct Prepared {
  std::vector<BoundArgument> bound;
  Flattener flat;
  std::string outside;
  Prepared(FunctionObject* self, const Call& call, bool want_names) : Prepared(self, bind(self, call), want_names) {}
  Prepared(FunctionObject* self, std::vector<BoundArgument> arguments, bool want_names)
      : bound(std::move(arguments)), flat(self->held, want_names) {
    outside = outside_key(self, values());
    flat.key += training_flag ? '1' : '0';
    flat.key += outside;
    for (size_t i = self->state->receives_self ? 1 : 0; i < bound.size(); ++i) {
      if (!bound[i].keyword.empty()) flat.key += cat('k', bound[i].keyword, '=');
      flat.add(bound[i].value, bound[i].name);
    }
  }
  Arguments arguments(std::optional<uint64_t> ranks = {}) const { return {flat.tensors, flat.variables, flat.key, {}, ranks}; }
  std::vector<PyObject*> values() const {
    std::vector<PyObject*> out;
    for (const BoundArgument& one : bound) out.push_back(one.value.ptr());
    return out;
  }
  // The same call with copied containers, which cannot change during the trace.
  Prepared own(FunctionObject* self) const {
    std::vector<BoundArgument> copies = bound;
    for (size_t i = self->state->receives_self ? 1 : 0; i < copies.size(); ++i) copies[i].value = Rebuilder().rebuild(bound[i].value);
    return {self, std::move(copies), true};
  }

 private:
  static std::vector<BoundArgument> bind(FunctionObject* self, const Call& call) {
    State& state = *self->state;
    std::vector<BoundArgument> bound = binding_of(self).bind(state.name, call.args, call.count, call.names);
    if (state.signature) convert_to_signature(*state.signature, state.receives_self, bound);
    return bound;
  }
};

Function& function_of(FunctionObject* self, const std::vector<std::string>& names) {
  State& state = *self->state;
  if (!state.function) {
    FunctionOptions options;
    options.memory_budget = self->state->memory_budget;
    options.name = state.name;
    options.advice = state.advice;
    options.argument_names = names;
    options.signature = state.signature;
    state.function.emplace(std::move(options));
  }
  return *state.function;
}

// The arguments in words. A method's instance is left out: it has a cache of its own.
std::vector<ArgumentPart> parts_of(const std::vector<BoundArgument>& bound, bool receives_self, TrainableReads& trainable,
                                   const LiveCaptures& live, PyObject* held) {
  Flattener flat(held, true);
  flat.parts.push_back({"the model", training_flag ? "called to train" : "called to predict", training_flag ? "1" : "0"});
  flat.parts.push_back({"what trains", trainable.in_words(), trainable.key()});
  flat.parts.push_back({"what it uses from outside", live.in_words(), live.in_words()});
  for (size_t i = receives_self; i < bound.size(); ++i) flat.add(bound[i].value, bound[i].name);
  return std::move(flat.parts);
}

// Runs the Python body on symbolic arguments. The GIL must not be held.
Traced trace_body(FunctionObject* self, const Prepared& prepared, std::span<const Tensor> tensors, std::span<const Variable> variables) {
  HeldGil gil;
  const std::vector<BoundArgument>& bound = prepared.bound;
  const bool of_instance = self->state->receives_self;
  ArgumentsWith in(tensors, variables);
  std::vector<nb::object> values;
  nb::list keywords;
  for (size_t i = 0; i < bound.size(); ++i) {
    values.push_back(of_instance && i == 0 ? bound[i].value : in.rebuild(bound[i].value));
    if (!bound[i].keyword.empty()) keywords.append(bound[i].keyword);
  }
  in.finish();
  const nb::object names = keywords.size() ? nb::object(nb::tuple(keywords)) : nb::object();
  std::vector<PyObject*> raw;
  for (const nb::object& v : values) raw.push_back(v.ptr());
  nb::object function = nb::borrow(self->python_function);
  if (self->state->autograph) function = nb::module_::import_("lamina.autograph.conversion").attr("traced")(function, of_instance);
  const AutographScope scope(self->state->autograph);
  const TrainableReads::Scope reads(self->state->trainable);
  nb::object result =
      nb::steal(PyObject_Vectorcall(function.ptr(), raw.data(), raw.size() - keywords.size(), names.is_valid() ? names.ptr() : nullptr));
  if (!result.is_valid()) throw_python_error();
  Traced out;
  out.arguments = parts_of(bound, of_instance, self->state->trainable, self->state->live, self->held);
  const std::shared_ptr<ResultStructure> structure = ResultStructure::take(result, out.outputs);
  structure->arguments = described(std::span(bound).subspan(of_instance));
  structure->training = training_flag;
  structure->outside = prepared.outside;
  out.structure = structure;
  return out;
}

// The graph for a call; if there is none, traces with the arguments' current values. runs: the call follows.
std::shared_ptr<ConcreteFunction> get_concrete(FunctionObject* self, Prepared& prepared, bool runs = false) {
  State& state = *self->state;
  Function& known = function_of(self, prepared.flat.tensor_names);
  std::optional<uint64_t> ranks;
  if (known.by_rows() && (runs || distributed::in_whole_batch() || distributed::current().size() == 1)) {
    ReleasedGil release;  // else other ranks, which may not be here, would be asked
    ranks = known.ranks_of(prepared.arguments());
  }
  if (ConcreteFunction* found = known.find(prepared.arguments(ranks))) return found->shared_from_this();
  prepared = prepared.own(self);
  const auto traced = [&](Function function) {
    ReleasedGil release;  // another tracing thread holds a lock while it runs Python code
    const TracedBody body = [&](std::span<const Tensor> tensors, std::span<const Variable> variables) {
      return trace_body(self, prepared, tensors, variables);
    };
    return function.get(prepared.arguments(ranks), body).shared_from_this();
  };
  Relaxed* relaxed = nullptr;
  if (state.relax_shapes && !state.signature)
    relaxed = relax(state.relaxed, prepared.flat.key, prepared.flat.tensors, *state.function, state.of_model, state.retired_traces);
  const Function function = relaxed ? *relaxed->function : *state.function;
  std::shared_ptr<ConcreteFunction> made;
  if (relaxed) {
    bool fits = false, only_now = false;
    try {
      made = traced(function);
      ReleasedGil release;
      if (runs) made->prepare(prepared.flat.tensors, prepared.flat.variables);
      fits = true;
    } catch (const Error& e) {  // a slice longer than its axis, or an element that it lacks
      only_now = made && (e.kind == ErrorKind::signature || e.kind == ErrorKind::index);
    } catch (const nb::python_error& e) {
      if (!e.matches(PyExc_Exception)) throw;
    }
    if (!fits) {  // the function needs to know its lengths
      made = traced(*state.function);
      if (!only_now) refuse(state.relaxed, function, state.retired_traces);
    }
  } else if (state.signature) {
    made = trace_with_equal_lengths(*state.function, state.replaced, prepared.flat.tensors, traced);
  } else {
    made = traced(function);
  }
  warn_of_trace(*made, !state.of_model);
  state.live.add({self->python_function, prepared.values()}, *made);
  return made;
}

PyObject* finish(ConcreteFunction& concrete, std::vector<Tensor> outputs) {
  const auto& structure = *static_cast<const ResultStructure*>(concrete.structure().get());
  if (structure.is_tensor()) return wrap(std::move(outputs[0]));
  return structure.build([&](size_t i) { return to_python(outputs[i]); }).release().ptr();
}

PyObject* run(ConcreteFunction& concrete, std::span<const Tensor> tensors, std::span<const Variable> variables) {
  std::vector<Tensor> outputs;
  {
    ReleasedGil release;
    outputs = concrete.call_matched(tensors, variables, CallSite());
  }
  return finish(concrete, std::move(outputs));
}

constexpr Py_ssize_t kFewTensors = 8;
constexpr std::string_view kTensorKeys[2] = {"0TTTTTTTT", "1TTTTTTTT"};

PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
  FunctionObject* self = self_of(callable);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (config::functions_run_eagerly()) return PyObject_Vectorcall(self->python_function, args, flags, names);
  return guarded([&]() -> PyObject* {
    State& state = *self->state;
    nb::object keep = nb::borrow(callable);
    // Fast path: only tensors and NumPy arrays, and a graph exists. Touches no Python objects except the arguments.
    const Py_ssize_t skip = state.receives_self;
    if (!names && state.function && !state.function->by_rows() && state.binding->all_positional(count) && count - skip <= kFewTensors &&
        state.trainable.key().empty() && (!state.live.any() || state.live.key({self->python_function, {args, size_t(count)}}).empty())) {
      Tensor tensors[kFewTensors];
      Py_ssize_t i = skip;
      for (; i < count; ++i) {
        if (is_tensor(args[i]))
          tensors[i - skip] = as_tensor(args[i]);
        else if (is_array(args[i]) && !state.signature)
          tensors[i - skip] = to_argument(args[i]);
        else
          break;
      }
      if (i == count) {
        const std::span<const Tensor> used(tensors, size_t(count - skip));
        const Arguments arguments{used, {}, kTensorKeys[training_flag].substr(0, size_t(1 + count - skip)), {}};
        if (ConcreteFunction* found = state.function->find(arguments)) {
          state.trainable.pass_on();
          return run(*found, used, {});
        }
      }
    }
    Prepared prepared(self, {args, count, names}, !state.function);
    const std::shared_ptr<ConcreteFunction> concrete = get_concrete(self, prepared, true);
    look_at_call(keep, {args, count, names}, concrete);
    state.trainable.pass_on();
    return run(*concrete, prepared.flat.tensors, prepared.flat.variables);
  });
}

PyObject* make(PyObject* python_function, const State& state) {
  PyObject* o = function_type->tp_alloc(function_type, 0);
  if (!o) throw_python_error();
  FunctionObject* self = self_of(o);
  self->vectorcall = call;
  self->python_function = Py_NewRef(python_function);
  self->held = PyDict_New();
  self->state = new State(state);
  return o;
}

// A method's Function for one instance. It lives as long as the instance, which it does not keep alive.
PyObject* function_for(FunctionObject* self, PyObject* instance) {
  if (!self->instances) self->instances = PyDict_New();
  nb::object id = nb::steal(PyLong_FromVoidPtr(instance));
  if (PyObject* entry = PyDict_GetItemWithError(self->instances, id.ptr())) return Py_NewRef(PyTuple_GET_ITEM(entry, 1));
  // The callback holds the dict, not this Function; it removes the entry of a dead instance.
  static PyMethodDef forget_def{"forget",
                                [](PyObject* pair, PyObject*) -> PyObject* {
                                  if (PyDict_DelItem(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)) != 0) PyErr_Clear();
                                  return Py_NewRef(Py_None);
                                },
                                METH_O, nullptr};
  nb::object pair = nb::make_tuple(nb::handle(self->instances), id);
  nb::object forget = nb::steal(PyCFunction_New(&forget_def, pair.ptr()));
  nb::object reference = nb::steal(PyWeakref_NewRef(instance, forget.ptr()));
  if (!reference.is_valid()) {
    PyErr_Clear();
    return nullptr;  // no weak references
  }
  State state;
  state.binding = self->state->binding;
  state.signature = self->state->signature;
  state.relax_shapes = self->state->relax_shapes;
  state.of_model = self->state->of_model;
  state.memory_budget = self->state->memory_budget;
  state.autograph = self->state->autograph;
  state.name = self->state->name;
  state.receives_self = true;
  state.instance = nb::steal(PyWeakref_NewRef(instance, nullptr));
  nb::object child = nb::steal(make(self->python_function, state));
  if (self->dict) self_of(child.ptr())->dict = PyDict_Copy(self->dict);
  nb::object entry = nb::make_tuple(reference, child);
  if (PyDict_SetItem(self->instances, id.ptr(), entry.ptr()) != 0) throw_python_error();
  return child.release().ptr();
}

PyObject* descriptor_get(PyObject* o, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(o);
  return guarded([&] {
    nb::object child = nb::steal(function_for(self_of(o), instance));
    if (child.is_valid()) binding_of(self_of(child.ptr()));
    return PyMethod_New(child.is_valid() ? child.ptr() : o, instance);
  });
}

int traverse(PyObject* o, visitproc visit, void* arg) {
  FunctionObject* self = self_of(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(self->dict);
  Py_VISIT(self->python_function);
  Py_VISIT(self->held);
  Py_VISIT(self->instances);
  return 0;
}

int clear(PyObject* o) {
  FunctionObject* self = self_of(o);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->python_function);
  Py_CLEAR(self->held);
  Py_CLEAR(self->instances);
  return 0;
}

void deallocate(PyObject* o) {
  FunctionObject* self = self_of(o);
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  if (self->weak_references) PyObject_ClearWeakRefs(o);
  clear(o);
  delete self->state;
  type->tp_free(o);
  Py_DECREF(type);
}

// --- attributes and methods ---

template <class F>
PyObject* text_object(F&& f) {
  return guarded([&] {
    const std::string s = f();
    return PyUnicode_FromStringAndSize(s.data(), Py_ssize_t(s.size()));
  });
}

PyObject* represent(PyObject* o) {
  const State& state = *self_of(o)->state;
  return text_object([&] { return state.function ? state.function->str() : cat("<lm.Function ", state.name, ", not traced yet>"); });
}

PyObject* get_trace_count(PyObject* o, void*) {
  const State& state = *self_of(o)->state;
  int traces = state.retired_traces + (state.function ? state.function->trace_count() : 0);
  for (const Function& f : state.replaced) traces += f.trace_count();
  for (const Relaxed& r : state.relaxed) traces += r.function ? r.function->trace_count() : 0;
  return PyLong_FromLong(traces);
}

PyObject* get_traces(PyObject* o, void*) {
  return guarded([&] {
    nb::list out;
    const State& state = *self_of(o)->state;
    if (state.function) {
      for (const TraceRecord& record : state.function->traces()) out.append(to_python(record));
    }
    return out.release().ptr();
  });
}

// The graph for a call, and the types of its tensors.
std::pair<std::shared_ptr<ConcreteFunction>, std::vector<TensorType>> concrete_for(PyObject* o, const Call& call) {
  FunctionObject* self = self_of(o);
  const WithInstance given(self->state->instance, binding_of(self), call);
  Prepared prepared(self, given.call, !self->state->function);
  std::vector<TensorType> types;
  for (const Tensor& t : prepared.flat.tensors) types.push_back(t.type());
  return {get_concrete(self, prepared), std::move(types)};
}

PyObject* get_signature(PyObject* o, void*) {
  return guarded([&] {
    const auto& signature = self_of(o)->state->signature;
    return (signature ? nb::cast(*signature) : nb::object(nb::none())).release().ptr();
  });
}

PyObject* get_concrete_function(PyObject* o, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    nb::object signature;  // without arguments: those of the input_signature
    if (count == 0 && !names && self_of(o)->state->signature) {
      signature = nb::steal(get_signature(o, nullptr));
      args = PySequence_Fast_ITEMS(signature.ptr()), count = PySequence_Fast_GET_SIZE(signature.ptr());
    }
    std::shared_ptr<ConcreteFunction> found = concrete_for(o, {args, count, names}).first;
    auto& known = self_of(o)->state->concretes;
    for (auto& [concrete, object] : known)
      if (concrete == found.get()) return nb::object(object).release().ptr();
    known.emplace_back(found.get(), nb::cast(Concrete{found}));
    return nb::object(known.back().second).release().ptr();
  });
}

PyObject* inspect_call(PyObject* o, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] { return nb::cast(concrete_for(o, {args, count, names}).first->inspect()).release().ptr(); });
}

PyObject* explain(PyObject* o, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const State& state = *self_of(o)->state;
    const ExplainCall call(binding_of(self_of(o)), {args, count, names});
    if (call.has_ranks()) return call.explain_ranks(nb::handle(o)).release().ptr();
    if (!call.is_empty() || binding_of(self_of(o)).parameter_count() == size_t(state.receives_self)) {
      const auto [graph, types] = concrete_for(o, call.rest());
      return to_python(graph->explanation(call.device(), types)).release().ptr();
    }
    if (!state.function || state.function->concrete_functions().empty()) {
      throw Error(ErrorKind::state, {.what = cat("explain: ", state.name, " has no graph yet"),
                                     .where = "",
                                     .why = "",
                                     .fix = "call it first, or pass explain() its arguments"});
    }
    return to_python(state.function->concrete_functions().back()->explanation(call.device())).release().ptr();
  });
}

// Every graph that was traced and is not part of another trace.
PyObject* get_graphs(PyObject* o, void*) {
  return guarded([&] {
    nb::list out;
    const auto add = [&](const std::optional<Function>& function) {
      if (function)
        for (const auto& graph : function->concrete_functions()) out.append(nb::cast(Concrete{graph}));
    };
    add(self_of(o)->state->function);
    for (const Relaxed& r : self_of(o)->state->relaxed) add(r.function);
    return out.release().ptr();
  });
}

PyObject* get_options(PyObject* o, void*) {
  return guarded([&] {
    const State& s = *self_of(o)->state;
    const nb::object budget = s.memory_budget ? nb::object(nb::int_(s.memory_budget)) : nb::object(nb::none());
    return nb::make_tuple(s.relax_shapes, s.autograph, budget).release().ptr();
  });
}

PyObject* get_outside(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  return text_object([&] {
    const WithInstance given(self_of(o)->state->instance, binding_of(self_of(o)), {args, count, nullptr});
    return outside_key(self_of(o), {given.call.args, size_t(given.call.count)});
  });
}

PyMethodDef methods[] = {
    {"get_concrete_function", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(get_concrete_function)), METH_FASTCALL | METH_KEYWORDS,
     "The graph for arguments like these (tensors or TensorSpecs; by default the input_signature), traced when there is none yet, also "
     "while functions run eagerly."},
    {"inspect", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(inspect_call)), METH_FASTCALL | METH_KEYWORDS,
     "Which ops the graph for these arguments has: .traced and .optimized."},
    {"explain", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(explain)), METH_FASTCALL | METH_KEYWORDS,
     "As text: the graph, the passes, what was fused, the program and its times; for these arguments, or without any for the newest "
     "graph.\n"
     "device=: a device to plan for, one that is not there too (\"null:h100\"); nothing runs. The result is a lm.Explanation.\n"
     "count=, hosts=: with device=, also what a training step takes on so many GPUs, evenly on so many hosts, that share the batch: "
     "modelled."},
    {"_outside", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(get_outside)), METH_FASTCALL,
     "The _outside of those graphs that a call would take now; of a method, for this instance."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"trace_count", get_trace_count, nullptr, "How many graphs were traced.", nullptr},
    {"traces", get_traces, nullptr, "One dict per trace: signature, cause, fix, where, microseconds.", nullptr},
    {"_graphs", get_graphs, nullptr, "A ConcreteFunction for each graph.", nullptr},
    {"_signature", get_signature, nullptr, "The TensorSpecs of input_signature, or None.", nullptr},
    {"_options", get_options, nullptr, "(relax_shapes, autograph, memory_budget).", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"python_function", T_OBJECT, offsetof(FunctionObject, python_function), READONLY, "The function that was wrapped."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    throw_type_error("Function: objects of this class are made by Lamina alone", "a traced function is made of a Python function",
                     "write lm.function(f)");
  });
}

PyType_Slot function_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(descriptor_get)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {"lamina.Function", sizeof(FunctionObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                    function_slots};

nb::object make_function(nb::handle function, nb::handle input_signature, bool relax_shapes, bool autograph,
                         std::optional<int64_t> memory_budget, bool of_model) {
  if (Py_TYPE(function.ptr()) == function_type) return nb::borrow(function);
  if (!PyCallable_Check(function.ptr()))
    throw_type_error(cat("lm.function: ", a_type(function.ptr()), " cannot be called"),
                     "what is traced is a function, or an object that can be called", "pass a function or a callable object");
  if (memory_budget && *memory_budget < 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat("lm.function: the memory budget is ", *memory_budget, " bytes"),
                                              .where = text(CallSite().line()),
                                              .why = "it is 1 or more",
                                              .fix = "leave it out for no limit"});
  State state;
  state.memory_budget = memory_budget.value_or(0);
  const nb::object name = nb::getattr(function, "__name__", nb::none());
  state.name = PyUnicode_Check(name.ptr()) ? nb::cast<std::string>(name) : std::string(Py_TYPE(function.ptr())->tp_name);
  if (const nb::object advice = nb::getattr(function, "_advice", nb::none()); PyUnicode_Check(advice.ptr()))
    state.advice = nb::cast<std::string>(advice);
  state.relax_shapes = relax_shapes || of_model;
  state.of_model = of_model;
  state.autograph = autograph;
  if (!input_signature.is_none()) state.signature = to_specs(input_signature);
  nb::object made = nb::steal(make(function.ptr(), state));
  made.attr("__wrapped__") = function;
  made.attr("__name__") = state.name;
  for (const char* attribute : {"__qualname__", "__doc__", "__module__"}) {
    nb::object value = nb::getattr(function, attribute, nb::none());
    if (PyUnicode_Check(value.ptr())) made.attr(attribute) = value;
  }
  return made;
}

}  // namespace

bool is_function(PyObject* o) { return Py_TYPE(o) == function_type; }

void bind_function(nb::module_& m) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw_python_error();
  function_type = reinterpret_cast<PyTypeObject*>(type);
  m.attr("Function") = nb::handle(type);
  set_garbage_collector([] {
    HeldGil gil;
    PyGC_Collect();
  });
  watch_retraces();
  bind_function_calls(m);
  m.def("function", make_function, nb::arg("function"), nb::arg("input_signature") = nb::none(), nb::arg("relax_shapes") = false,
        nb::arg("autograph") = true, nb::arg("memory_budget") = nb::none(), nb::arg("of_model") = false);
  m.def("autograph_is_active", [] { return autograph_flag; }, "Whether the function that is being traced is converted by AutoGraph.");
}

}  // namespace lamina::python
