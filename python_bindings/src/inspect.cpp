// TensorSpec, ConcreteFunction and lm.inspect.
#include <algorithm>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/cost/predict.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/function.h"
#include "python_bindings/src/methods.h"

namespace lamina::python {
namespace {

Shape open_shape(nb::handle shape) {
  Shape out;
  if (PyIndex_Check(shape.ptr())) return to_shape(shape);
  if (PyUnicode_Check(shape.ptr())) throw_type_error(cat(shown(shape), " is no shape"), "a shape is a list of lengths", "pass [None, 3]");
  for (const nb::object& d : elements_of(shape)) {
    if (d.is_none())
      out.push_back(any_length());
    else if (PyUnicode_Check(d.ptr()))
      out.push_back(Dim::symbol(nb::cast<std::string>(d)));
    else
      out.push_back(to_shape(nb::make_tuple(d))[0]);
  }
  return out;
}

void add_specs(std::vector<TensorSpec>& out, nb::handle value, Walk& walk) {
  PyObject* o = value.ptr();
  const Container kind = container_of(o);
  if (nb::isinstance<TensorSpec>(value)) {
    out.push_back(instance<TensorSpec>(value));
  } else if (kind != Container::none) {
    Walk::Inside container(walk, value, kind);
    for (const size_t i : container.parts.order()) add_specs(out, container.parts.values[i], walk);
  } else {
    throw_type_error(cat("input_signature: ", a_type(o), " is not a TensorSpec"),
                     "a signature says dtype and shape of each tensor argument", "write [lm.TensorSpec([None, 784], lm.float32), ...]");
  }
}

// The results nested as a file says or as the function's were; otherwise a list of them.
nb::object nested(const Concrete& c, const std::function<nb::object(size_t)>& leaf) {
  const auto* structure = static_cast<const ResultStructure*>(c.function->structure().get());
  if (structure && !c.nest.is_valid()) return structure->build(leaf);
  nb::list out;
  for (size_t i = 0; i < c.function->graph().outputs.size(); ++i) out.append(leaf(i));
  return c.nest.is_valid() ? c.nest(out) : nb::object(out);
}

// Whether an argument, as described_argument() says, has tensors or Variables.
bool has_inputs(nb::handle tree) {
  const std::string kind = nb::cast<std::string>(tree[0]);
  if (kind == "tensor" || kind == "variable") return true;
  if (kind == "value" || kind == "object") return false;
  const bool named = kind == "named", by_key = named || kind == "dict";
  for (const nb::object& part : elements_of(tree[named ? 2 : 1]))
    if (has_inputs(by_key ? nb::object(part[1]) : part)) return true;
  return false;
}

// Whether two such arguments are nested alike: by the same keys, with as many parts.
bool nested_alike(nb::handle a, nb::handle b) {
  const auto is_leaf = [](const std::string& kind) {
    return kind == "tensor" || kind == "variable" || kind == "value" || kind == "object";
  };
  const std::string kind = nb::cast<std::string>(a[0]), other = nb::cast<std::string>(b[0]);
  if (is_leaf(kind) || is_leaf(other)) return is_leaf(kind) && is_leaf(other);
  const bool named = kind == "named", by_key = named || kind == "dict";
  if (kind != other || (named && !nb::object(a[1]).equal(b[1]))) return false;
  const std::vector<nb::object> parts = elements_of(a[named ? 2 : 1]), others = elements_of(b[named ? 2 : 1]);
  return parts.size() == others.size() && std::equal(parts.begin(), parts.end(), others.begin(), [&](const auto& x, const auto& y) {
           return by_key ? nb::object(x[0]).equal(y[0]) && nested_alike(x[1], y[1]) : nested_alike(x, y);
         });
}

// The arguments of a graph's call that have tensors or Variables, in the graph's order. The others were fixed when it was traced.
std::vector<nb::object> inputs_of(const Concrete& c, const nb::args& args, const nb::kwargs& kwargs) {
  const auto* structure = static_cast<const ResultStructure*>(c.function->structure().get());
  std::vector<std::string> all;
  struct Input {
    std::string name;
    nb::object tree, value;  // no value: not passed yet
  };
  std::vector<Input> inputs;
  const auto refuse = [&](const std::string& what) {
    std::string names;
    for (const std::string& name : all) names += cat(names.empty() ? "" : ", ", name);
    throw Error(ErrorKind::signature, {.what = cat(c.function->name(), ": ", what),
                                       .where = text(CallSite().line()),
                                       .why = structure ? cat("the graph was traced for ", c.function->name(), '(', names, ')')
                                                        : "a graph that was loaded knows its inputs by position only",
                                       .fix = structure ? "pass each argument that has tensors once, in this order or by name"
                                                        : "call the function that lm.load gave, or pass the inputs in order"});
  };
  std::vector<size_t> by_position;
  if (structure) {
    for (const nb::object& one : elements_of(structure->arguments)) {
      all.push_back(nb::cast<std::string>(nb::object(one[0])));
      if (!has_inputs(nb::object(one[3]))) continue;
      if (!nb::cast<bool>(nb::object(one[1]))) by_position.push_back(inputs.size());
      inputs.push_back({all.back(), one[3], {}});
    }
  }
  std::vector<nb::object> out;
  size_t next = 0;
  for (nb::handle one : args) {
    if (!structure)
      out.push_back(nb::borrow(one));
    else if (!has_inputs(described_argument(one)))
      continue;
    else if (next < by_position.size())
      inputs[by_position[next++]].value = nb::borrow(one);
    else
      refuse(cat("more than ", next, " arguments with tensors are passed by position"));
  }
  for (auto [key, one] : kwargs) {
    const std::string name = nb::cast<std::string>(key);
    if (std::find(all.begin(), all.end(), name) == all.end()) refuse(cat("there is no argument '", name, "'"));
    for (Input& input : inputs) {
      if (input.name != name) continue;
      if (input.value.is_valid()) refuse(cat("the argument '", name, "' is passed twice"));
      input.value = nb::borrow(one);
    }
  }
  for (Input& input : inputs) {
    if (!input.value.is_valid()) continue;
    if (!nested_alike(input.tree, described_argument(input.value)))
      refuse(cat("the argument '", input.name, "' is nested in another way than the one that was traced"));
    out.push_back(std::move(input.value));
  }
  return out;
}

nb::object call_concrete(const Concrete& c, nb::args args, nb::kwargs kwargs) {
  Flattener flat(nb::dict().ptr());
  for (const nb::object& one : inputs_of(c, args, kwargs)) flat.add(one, "");
  std::vector<Tensor> outputs;
  {
    ReleasedGil release;
    outputs = c.function->call(flat.tensors, flat.variables, CallSite());
  }
  return nested(c, [&](size_t i) { return nb::object(to_python(outputs[i])); });
}

nb::tuple data_of(const TensorType& type) {
  nb::list dims;
  for (const Dim d : type.shape) dims.append(d.known() ? nb::object(nb::cast(d.number())) : nb::object(nb::cast(d.text())));
  return nb::make_tuple(numpy_name(type.dtype), dims);
}

nb::list data_of(const std::vector<ir::Value>& values) {
  nb::list out;
  for (const ir::Value v : values) out.append(nb::make_tuple(v.node, v.result));
  return out;
}

// A graph as lists, tuples and texts; a constant's elements are bytes, or None where all are zero.
nb::dict data_of(const ir::Graph& g) {
  nb::list nodes, resources;
  for (int i = 0; i < g.size(); ++i) {
    const ir::Node& n = g[i];
    nb::dict one, attrs;
    nb::list types, regions;
    for (const TensorType& t : n.types) types.append(data_of(t));
    for (const ir::GraphRef& region : n.regions) regions.append(data_of(*region));
    if (const ir::Literal* value = ir::constant_value(g, {i, 0})) {
      attrs["value"] = value->bytes ? nb::object(nb::bytes(value->bytes->data(), value->bytes->size())) : nb::object(nb::none());
    } else if (n.attrs) {
      for (const auto& [name, text] : n.attrs->text()) attrs[name.c_str()] = text;
    }
    one["op"] = n.op->name, one["attrs"] = attrs, one["inputs"] = data_of(n.inputs), one["types"] = types, one["regions"] = regions;
    one["line"] = n.line.known() ? text(n.line) : std::string();
    one["scope"] = n.scope;
    nodes.append(one);
  }
  for (const ir::Resource& r : g.resources) resources.append(nb::make_tuple(r.name, data_of(r.type)));
  nb::dict out;
  out["nodes"] = nodes, out["inputs"] = data_of(g.inputs), out["outputs"] = data_of(g.outputs), out["resources"] = resources;
  return out;
}

}  // namespace

nb::object to_python(const TraceRecord& record) {
  nb::dict out;
  out["signature"] = record.signature, out["cause"] = record.cause, out["fix"] = record.fix;
  out["where"] = text(record.line), out["microseconds"] = record.microseconds;
  return out;
}

nb::object to_python(const Explanation& e) {
  nb::list launches;
  for (const Explanation::Launch& l : e.launches) {
    nb::dict one;
    one["name"] = l.name, one["device"] = text(l.device), one["label"] = l.label,
    one["line"] = l.line.known() ? text(l.line) : std::string();
    one["stream"] = l.stream, one["wait"] = l.wait_for, one["signal"] = l.signal < 0 ? nb::object(nb::none()) : nb::cast(l.signal);
    one["section_steps"] = l.section_steps, one["why_alone"] = l.why_alone, one["details"] = l.details, one["steps"] = l.steps;
    one["predicted_us"] = l.predicted_us < 0 ? nb::object(nb::none()) : nb::cast(l.predicted_us);
    one["launch_us"] = l.predicted_us < 0 ? nb::object(nb::none()) : nb::cast(cost::kLaunchMicroseconds);
    one["measured_us"] = l.measured_us < 0 ? nb::object(nb::none()) : nb::cast(l.measured_us);
    launches.append(one);
  }
  nb::dict bytes, data;
  for (const auto& [device, size] : e.temporary_bytes) bytes[nb::cast(text(device))] = size;
  data["function"] = e.function, data["planned_only"] = e.planned_only, data["traced_kernels"] = e.traced_kernels,
  data["launches"] = launches;
  data["copies"] = e.copies, data["temporary_bytes"] = bytes, data["trace_ms"] = e.trace_ms, data["passes_ms"] = e.passes_ms,
  data["compile_ms"] = e.compile_ms;
  data["run_ms"] = e.run_ms < 0 ? nb::object(nb::none()) : nb::cast(e.run_ms);
  data["runs"] = e.runs;
  nb::list placements;
  for (const exec::Candidate& c : e.placements)
    placements.append(nb::make_tuple(c.name, c.microseconds < 0 ? nb::object(nb::none()) : nb::cast(c.microseconds), c.why));
  data["placements"] = placements;
  data["modelled_us"] = e.modelled_us < 0 ? nb::object(nb::none()) : nb::cast(e.modelled_us);
  return nb::module_::import_("lamina._explanation").attr("Explanation")(e.text, data);
}

std::vector<TensorSpec> to_specs(nb::handle signature) {
  std::vector<TensorSpec> out;
  Walk walk("input_signature");
  add_specs(out, signature, walk);
  return out;
}

void bind_inspect(nb::module_& m) {
  add_method(m, "_repr_html_", [](nb::handle self) { return nb::module_::import_("lamina._html").attr("of_tensor")(self); });
  m.def("_check_leaf", check_leaf, nb::arg("value").none());
  m.def("_described", described_result, nb::arg("result").none(),
        "The nesting of a result as tuples: see described_result() in structure.h.");
  nb::class_<TensorSpec>(m, "TensorSpec", nb::is_weak_referenceable(),
                         "A dtype and a shape: what an argument must be. None in the shape takes any length; a name such as \"n\" takes "
                         "any length that is the\n"
                         "same wherever the name stands. Raises InvalidArgument for a negative length, and for what cannot name one.")
      .def(
          "__init__",
          [](TensorSpec* self, nb::handle shape, nb::handle dtype, const std::optional<std::string>& name) {
            new (self) TensorSpec{open_shape(shape), dtype.is_none() ? DType::f32 : to_dtype(dtype), name.value_or("")};
          },
          nb::arg("shape"), nb::arg("dtype") = nb::none(), nb::arg("name") = nb::none())
      .def_prop_ro("shape", [](const TensorSpec& s) { return to_python(s.shape); })
      .def_prop_ro("dtype", [](const TensorSpec& s) { return to_python(s.dtype); })
      .def_prop_ro("name", [](const TensorSpec& s) { return s.name; })
      .def(
          "__eq__",
          [](const TensorSpec& a, nb::handle b) {
            if (!nb::isinstance<TensorSpec>(b)) return false;
            const TensorSpec& other = instance<TensorSpec>(b);
            return a.dtype == other.dtype && to_python(a.shape).equal(to_python(other.shape));
          },
          nb::arg("other").none())
      .def("__hash__", [](const TensorSpec& s) { return nb::hash(nb::make_tuple(to_python(s.shape), numpy_name(s.dtype))); })
      .def("__repr__", [](const TensorSpec& s) { return s.str(); });
  nb::class_<Inspection>(m, "Inspection", "Which ops a graph has, by name, in order.")
      .def_ro("traced", &Inspection::traced, "As traced; constants are \"constant\".")
      .def_ro("optimized", &Inspection::optimized, "After the graph passes, before elementwise fusion and sections.")
      .def("__repr__", [](const Inspection& i) {
        return cat("<lm.Inspection: ", i.traced.size(), " ops traced, ", i.optimized.size(), " after optimisation>");
      });
  nb::class_<Concrete>(
      m, "ConcreteFunction", nb::is_weak_referenceable(),
      "One graph of a function, callable with tensors that fit it, in order or by the arguments' names. Normally the function itself is "
      "called and picks the graph.")
      .def("__call__", call_concrete)
      .def_prop_ro("name", [](const Concrete& c) { return c.function->name(); })
      .def_prop_ro(
          "inputs", [](const Concrete& c) { return c.function->inputs(); }, "A TensorSpec per tensor argument.")
      .def_prop_ro(
          "outputs", [](const Concrete& c) { return c.function->outputs(); }, "A TensorSpec per output.")
      .def_prop_ro(
          "structured_outputs",
          [](const Concrete& c) {
            std::vector<TensorSpec> specs = c.function->outputs();
            return nested(c, [&](size_t i) { return nb::cast(specs[i]); });
          },
          "The same, nested as the function's result is.")
      .def_prop_ro(
          "variables", [](const Concrete& c) { return c.function->variables(); }, "The Variables that the graph reads or writes.")
      .def_prop_ro("_assigned", [](const Concrete& c) { return c.function->assigned(); })
      .def_prop_ro(
          "graph", [](const Concrete& c) { return ir::print(c.function->graph()); }, "The graph as traced, as text.")
      .def_prop_ro("_graph_data", [](const Concrete& c) { return data_of(c.function->graph()); })
      .def_prop_ro("_captures", [](const Concrete& c) { return to_list(c.function->captures()); })
      .def_prop_ro(
          "optimized_graph", [](const Concrete& c) { return ir::print(c.function->optimized_graph()); },
          "The graph after all passes, as text.")
      .def_prop_ro(
          "temporary_bytes", [](const Concrete& c) { return c.function->temporary_bytes(); },
          "Bytes of temporary memory that a call takes, by the plan used last; 0 before the first call.")
      .def_prop_ro(
          "plan_count", [](const Concrete& c) { return c.function->plan_count(); }, "For how many concrete shapes it is planned.")
      .def_prop_ro(
          "instructions", [](const Concrete& c) { return c.function->instructions(); },
          "What one call launches, by name, with the plan used last; empty before the first call.")
      .def_prop_ro(
          "traced_kernels", [](const Concrete& c) { return traced_kernels(c.function->graph()); },
          "How many kernels a call would launch if every op of the traced graph were one.")
      .def_prop_ro(
          "_arguments",
          [](const Concrete& c) {
            const auto* structure = static_cast<const ResultStructure*>(c.function->structure().get());
            return structure ? structure->arguments : nb::object(nb::none());
          },
          "What it was traced with: (name, by name alone, at its default, tree) each; see described_argument() in structure.h.")
      .def_rw("_nest", &Concrete::nest)
      .def_prop_ro("_training",
                   [](const Concrete& c) {
                     const auto* structure = static_cast<const ResultStructure*>(c.function->structure().get());
                     return structure && structure->training;
                   })
      .def_prop_ro(
          "_outside",
          [](const Concrete& c) {
            const auto* structure = static_cast<const ResultStructure*>(c.function->structure().get());
            return structure ? structure->outside : std::string();
          },
          "What selected it beside its arguments and training; compare with Function._outside().")
      .def(
          "_fits",
          [](const Concrete& c, const std::vector<nb::object>& tensors, const std::vector<Variable>& variables) {
            try {
              c.function->check(tensors_of(nb::cast(tensors)), variables);
              return true;
            } catch (const Error& error) {
              if (error.kind != ErrorKind::signature) throw;
              return false;
            }
          },
          nb::arg("tensors"), nb::arg("variables"))
      .def(
          "_call",
          [](const Concrete& c, const std::vector<nb::object>& tensors, const std::vector<Variable>& variables) {
            const std::vector<Tensor> inputs = tensors_of(nb::cast(tensors));
            std::vector<Tensor> outputs;
            {
              ReleasedGil release;
              outputs = c.function->call(inputs, variables, CallSite());
            }
            return to_list(outputs);
          },
          nb::arg("tensors"), nb::arg("variables"), "The results as a list, of the tensors and Variables in the graph's order.")
      .def(
          "_inline_changed",
          [](const Concrete& c, const std::vector<nb::object>& tensors, nb::callable read, nb::callable operands) {
            Trace::Changes changes;
            changes.read = [&](int resource) { return tensors_of(nb::make_tuple(read(resource)))[0]; };
            changes.operands = [&](int node, std::vector<Tensor>& inputs) {
              nb::object changed = operands(node, to_list(inputs));
              if (!changed.is_none()) inputs = tensors_of(changed);
            };
            return to_list(c.function->inline_changed(tensors_of(nb::cast(tensors)), changes, CallSite()));
          },
          nb::arg("tensors"), nb::arg("read"), nb::arg("operands"),
          "The results as a list, in the trace of a function around it. read(i): the value of Variable i; operands(node, inputs): other "
          "inputs for the node of this number in _graph_data, or None.")
      .def(
          "inspect", [](const Concrete& c) { return c.function->inspect(); },
          "The graph's ops as traced and as optimised, as lm.inspect lists them.")
      .def(
          "explain",
          [](const Concrete& c, const std::optional<std::string>& device) {
            return to_python(c.function->explanation(device ? std::optional(parse_device(*device)) : std::nullopt));
          },
          nb::arg("device") = nb::none(), "As fn.explain() does, of this graph.")
      .def("__repr__", [](const Concrete& c) { return c.function->str(); });
  m.def(
      "inspect",
      [](nb::handle fn, nb::args args, nb::kwargs kwargs) {
        if (nb::isinstance<Concrete>(fn)) return nb::cast(instance<Concrete>(fn).function->inspect());
        if (PyMethod_Check(fn.ptr()) && is_function(PyMethod_GET_FUNCTION(fn.ptr()))) {
          return nb::object(
              nb::handle(PyMethod_GET_FUNCTION(fn.ptr())).attr("inspect")(nb::handle(PyMethod_GET_SELF(fn.ptr())), *args, **kwargs));
        }
        const nb::object function =
            is_function(fn.ptr()) ? nb::borrow(fn) : nb::object(nb::module_::import_("lamina._core").attr("function")(fn));
        return nb::object(function.attr("inspect")(*args, **kwargs));
      },
      nb::arg("fn"), nb::arg("args"), nb::arg("kwargs"),
      "Which ops the graph of fn for these arguments has: .traced as recorded, .optimized after the graph passes. fn may be a lm.function "
      "or a plain function.");
}

}  // namespace lamina::python
