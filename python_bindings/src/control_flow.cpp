// lm.cond, lm.while_loop, lm.scan, lm.checkpoint: results of branches and loop variables are structures of tensors.
#include "graph/functions/control_flow.h"

#include <algorithm>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "graph/frontend/trace.h"
#include "python_bindings/src/operators.h"
#include "python_bindings/src/structure.h"

namespace lamina::python {
namespace {

// A flattened structure: numbers and arrays have become tensors.
struct Packed {
  std::vector<Tensor> tensors;     // those of dicts in the order of the keys' texts, whatever their own order is
  std::vector<std::string> names;  // "[0]", "['x'][1]"
  std::string form;                // "(Tensor, {'x': Tensor})"; equal exactly when the structures are equal
  std::shared_ptr<ResultStructure> structure;
  std::vector<size_t> order;  // of each tensor in the structure, its place in `tensors`

  nb::object build(std::span<const Tensor> with) const {
    return structure->build([&](size_t i) { return nb::object(to_python(with[order[i]])); });
  }
};

// What a dataclass holds besides its fields is not carried: it is the same whatever runs.
std::string in_form(nb::handle attribute) {
  PyObject* o = attribute.ptr();
  if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o)) return shown(attribute);
  return cat(a_type(o), " at ", static_cast<const void*>(o));
}

class Packer {
 public:
  // Python numbers get the dtype of the corresponding tensor in `like`.
  Packer(const char* what, const std::vector<Tensor>* like) : what_(what), like_(like), walk_(what) {}

  Packed pack(nb::handle value) {
    Packed out;
    nb::object converted = convert(value, "", out, out.order);
    std::vector<Tensor> again;
    out.structure = ResultStructure::take(converted, again);
    return out;
  }

 private:
  nb::object leaf(Tensor t, const std::string& path, Packed& out, std::vector<size_t>& order) {
    order.push_back(out.tensors.size());
    out.tensors.push_back(t);
    out.names.push_back(path);
    out.form += "Tensor";
    return to_python(std::move(t));
  }
  Tensor number(nb::handle value, size_t place) {
    const Operand operand = to_operand(value);
    if (!like_ || place >= like_->size()) return operand.resolve();
    const Tensor& wanted = (*like_)[place];
    return wanted.rank() == 0 ? operand.resolve(wanted.dtype(), wanted.device(), what_) : operand.resolve();
  }
  // Appends to `order` the places of the value's tensors.
  nb::object convert(nb::handle value, const std::string& path, Packed& out, std::vector<size_t>& order) {
    PyObject* o = value.ptr();
    if (is_tensor(o)) return leaf(as_tensor(o), path, out, order);
    if (is_variable(o)) return leaf(as_variable(o).read(CallSite()), path, out, order);
    if (o == Py_None) {
      out.form += "None";
      return nb::borrow(value);
    }
    if (PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o)) return leaf(number(value, out.tensors.size()), path, out, order);
    const Container kind = container_of(o);
    if (kind == Container::dict) {
      Walk::Inside container(walk_, value, kind);
      std::vector<nb::object>& parts = container.parts.values;
      std::vector<std::vector<size_t>> places(parts.size());
      std::vector<std::pair<std::string, size_t>> sorted;
      for (size_t i = 0; i < parts.size(); ++i) sorted.emplace_back(nb::cast<std::string>(nb::repr(container.parts.keys[i])), i);
      std::sort(sorted.begin(), sorted.end());
      out.form += '{';
      for (size_t i = 0; i < sorted.size(); ++i) {
        const auto& [name, at] = sorted[i];
        out.form += cat(i ? ", " : "", name, ": ");
        parts[at] = convert(parts[at], cat(path, '[', name, ']'), out, places[at]);
      }
      out.form += '}';
      nb::dict copy;
      for (size_t i = 0; i < parts.size(); ++i) {
        copy[container.parts.keys[i]] = parts[i];
        order.insert(order.end(), places[i].begin(), places[i].end());
      }
      return copy;
    }
    if (kind == Container::list || kind == Container::sequence || kind == Container::tuple || kind == Container::named_tuple) {
      Walk::Inside container(walk_, value, kind);
      std::vector<nb::object>& parts = container.parts.values;
      const bool list = kind == Container::list || kind == Container::sequence,
                 named = kind == Container::named_tuple || kind == Container::sequence;
      if (named) out.form += nb::cast<std::string>(value.type().attr("__name__"));
      out.form += list ? '[' : '(';
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i) out.form += ", ";
        parts[i] = convert(parts[i], cat(path, '[', i, ']'), out, order);
      }
      out.form += list ? "]" : parts.size() == 1 && !named ? ",)" : ")";
      return with_parts(value, kind, {}, parts);
    }
    if (kind == Container::dataclass) {
      Walk::Inside container(walk_, value, kind);
      Parts& parts = container.parts;
      out.form += cat(nb::cast<std::string>(value.type().attr("__name__")), '(');
      for (size_t i = 0; i < parts.values.size(); ++i) {
        const std::string name = nb::cast<std::string>(parts.keys[i]);
        out.form += cat(i ? ", " : "", name, '=');
        parts.values[i] = convert(parts.values[i], cat(path, '.', name), out, order);
      }
      for (const auto& [name, held] : other_attributes(value)) out.form += cat(", ", name, ": ", in_form(held));
      out.form += ')';
      return with_parts(value, kind, parts.keys, parts.values);
    }
    if (is_array(o)) return leaf(to_tensor(value), path, out, order);
    throw_type_error(cat(what_, ": ", a_type(o), path.empty() ? "" : cat(" at ", path), " is not a tensor"),
                     "loop variables and results of branches and bodies are tensors",
                     "pass tensors, numbers, None, and tuples, lists, dicts and dataclasses of them");
  }

  const char* what_;
  const std::vector<Tensor>* like_;
  Walk walk_;
};

Packed pack(const char* what, nb::handle value, const std::vector<Tensor>* like = nullptr) { return Packer(what, like).pack(value); }

void check_form(const char* op, const std::string& role, const std::string& got, const std::string& other, const std::string& wanted) {
  if (got == wanted) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", role, " returns ", got, ", ", other, " ", wanted),
                                            .where = text(CallSite().line()),
                                            .why = "the structure is the same whatever runs",
                                            .fix = cat("return ", wanted)});
}

nb::object cond(nb::handle pred, nb::callable then, nb::callable otherwise) {
  const Operand chosen = to_operand(pred);
  if (chosen.kind() == Operand::Kind::boolean) return chosen.number() != 0 ? then() : otherwise();
  std::optional<Packed> first, second;
  std::vector<std::string> names;
  auto run = [&](nb::callable& branch, std::optional<Packed>& mine, const std::optional<Packed>& other) {
    mine = pack("cond", branch(), other ? &other->tensors : nullptr);
    if (other) check_form("cond", "the second branch", mine->form, "the first one", other->form);
    names = mine->names;
    return mine->tensors;
  };
  const std::vector<Tensor> out =
      control::cond(chosen, [&] { return run(then, first, second); }, [&] { return run(otherwise, second, first); }, names);
  return (first ? *first : *second).build(out);
}

nb::object checkpoint(nb::callable body) {
  check_stack({});
  if (!Trace::current()) return body();
  std::optional<Packed> result;
  const std::vector<Tensor> out = control::checkpoint(
      [&] {
        result = pack("checkpoint", body());
        return result->tensors;
      },
      CallSite());
  return result->build(out);
}

nb::object while_loop(nb::callable condition, nb::callable body, nb::handle init, std::optional<int64_t> maximum) {
  if (maximum && *maximum < 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("while_loop: the maximum of iterations is ", *maximum),
                                              .where = text(CallSite().line()),
                                              .why = "it is 0 or more",
                                              .fix = "leave it out for no limit"});
  const Packed start = pack("while_loop", init);
  LoopOptions options;
  options.maximum_iterations = maximum.value_or(-1);
  options.names = start.names;
  auto test = [&](std::span<const Tensor> state) {
    const nb::object result = condition(start.build(state));
    return to_operand(result).resolve();
  };
  auto step = [&](std::span<const Tensor> state) {
    const Packed next = pack("while_loop", body(start.build(state)), &start.tensors);
    check_form("while_loop", "the body", next.form, "init is", start.form);
    return next.tensors;
  };
  return start.build(control::while_loop(test, step, start.tensors, options, CallSite()));
}

nb::object scan(nb::callable body, nb::handle init, nb::handle xs, std::optional<int64_t> length, bool reverse) {
  const Packed start = pack("scan", init), stacked = pack("scan", xs);
  std::optional<Packed> ys;
  ScanOptions options{length.value_or(-1), reverse, start.names};
  if (length && *length < 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("scan: the length is ", *length),
                                              .where = text(CallSite().line()),
                                              .why = "it is 0 or more",
                                              .fix = "leave it out to go through all of xs"});
  const size_t carried = start.tensors.size();
  auto step = [&](std::span<const Tensor> all) {
    const nb::object result = body(start.build(all.first(carried)), stacked.build(all.subspan(carried)));
    if (!PyTuple_CheckExact(result.ptr()) || PyTuple_GET_SIZE(result.ptr()) != 2)
      throw_type_error(cat("scan: the body returns ", a_type(result.ptr())),
                       "it returns a tuple of two: the loop variables, and what is stacked",
                       "write return state, y (or return state, None)");
    const Packed next = pack("scan", PyTuple_GET_ITEM(result.ptr(), 0), &start.tensors);
    check_form("scan", "the body", next.form, "init is", start.form);
    Packed y = pack("scan", PyTuple_GET_ITEM(result.ptr(), 1));
    if (ys) check_form("scan", "a later iteration", y.form, "an earlier one", ys->form);
    std::vector<Tensor> out = next.tensors;
    out.insert(out.end(), y.tensors.begin(), y.tensors.end());
    ys = std::move(y);
    return out;
  };
  const std::vector<Tensor> out = control::scan(step, start.tensors, stacked.tensors, options, CallSite());
  const std::span<const Tensor> all(out);
  return nb::make_tuple(start.build(all.first(carried)), ys->build(all.subspan(carried)));
}

}  // namespace

void bind_control_flow(nb::module_& m) {
  m.def(
      "_weak", [](nb::handle x) { return to_python(as_number(as_tensor(x.ptr()))); }, nb::arg("x"),
      "The tensor as a number that the graph computes in place of a Python number; itself if it has axes.");
  m.def("_is_number", [](nb::handle x) { return as_tensor(x.ptr()).strength() == Strength::number; }, nb::arg("x"));
  m.def("cond", &cond, nb::arg("pred"), nb::arg("then"), nb::arg("otherwise"),
        "then() where pred (one bool) is true, else otherwise().\n\nWhile a function is traced both are traced, and the graph runs the one "
        "that pred chooses then. Both must return the same structure of\n"
        "tensors (tuples, lists, dicts, dataclasses, None) with the same dtypes and shapes; anything else raises InvalidArgument or "
        "TypeMismatch. A "
        "Python bool chooses while tracing.");
  m.def("checkpoint", &checkpoint, nb::arg("body"));
  m.def("while_loop", &while_loop, nb::arg("condition"), nb::arg("body"), nb::arg("init").none(),
        nb::arg("maximum_iterations") = nb::none(),
        "state = body(state) as long as condition(state), one bool, is true; returns the last state. init is the first.\n\nA state is any "
        "structure of tensors; numbers in it become tensors. Every tensor "
        "keeps its dtype and shape, else\nTypeMismatch or InvalidArgument is raised. With maximum_iterations the loop ends after that many "
        "at the latest, and a gradient plans its memory for them.");
  m.def(
      "scan", &scan, nb::arg("body"), nb::arg("init").none(), nb::arg("xs") = nb::none(), nb::arg("length") = nb::none(),
      nb::arg("reverse") = false,
      "state, y = body(state, x) for each slice x of xs along its first axis; returns the last state and the ys, stacked along a new first "
      "axis.\n\nxs is any structure of tensors of one length, or None "
      "with length=. reverse goes from the last slice to the first. The state keeps its structure, dtypes\nand shapes, as in while_loop.");
}

}  // namespace lamina::python
