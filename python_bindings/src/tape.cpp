// lm.GradientTape.
#include "graph/frontend/tape.h"

#include <memory>

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "graph/functions/control_flow.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/operators.h"

namespace lamina::python {
namespace {

// Applies f to the Tensors and Variables of a nested structure, or rebuilds the structure from f's results.
template <class F>
nb::object map_nested(nb::handle value, const std::string& what, F&& f, Walk& walk) {
  PyObject* o = value.ptr();
  const Container kind = container_of(o);
  if (kind == Container::list || kind == Container::sequence || kind == Container::tuple || kind == Container::named_tuple ||
      kind == Container::dict) {
    Walk::Inside container(walk, value, kind);
    for (nb::object& part : container.parts.values) part = map_nested(part, what, f, walk);
    const bool tuple = kind == Container::named_tuple;  // gradients come as a plain tuple
    return with_parts(kind == Container::dict ? nb::object(nb::dict()) : nb::borrow(value), tuple ? Container::tuple : kind,
                      container.parts.keys, container.parts.values);
  }
  if (!is_tensor(o) && !is_variable(o)) {
    throw_type_error(cat(what, ": ", a_type(o), " is not a tensor or Variable"), "", "pass tensors or Variables, or lists of them");
  }
  return f(value);
}
template <class F>
nb::object map_nested(nb::handle value, const char* method, F&& f) {
  const std::string what = cat("GradientTape.", method);
  Walk walk(what.c_str());
  return map_nested(value, what, f, walk);
}

class PauseContext {
 public:
  explicit PauseContext(nb::object tape) : tape_(std::move(tape)) {}
  PauseContext(const PauseContext&) = delete;
  void enter() { pauses_.push_back(std::make_unique<GradientTape::Pause>(instance<GradientTape>(tape_).stop_recording())); }
  void exit() {
    if (!pauses_.empty()) pauses_.pop_back();
  }

 private:
  nb::object tape_;
  std::vector<std::unique_ptr<GradientTape::Pause>> pauses_;
};

// A tensor as it is: tapes know it by its address.
Tensor target_of(nb::handle t) { return is_tensor(t.ptr()) ? as_tensor(t.ptr()) : to_tensor(t); }

// The gradient by a source, an array of the host if that is one.
nb::object gradient_of(nb::handle source, Tensor gradient) {
  if (!gradient.defined() || !is_tensor(source.ptr())) return to_python(std::move(gradient));
  const Operand by(as_tensor(source.ptr()), CallSite());
  return nb::steal(wrap_like(std::move(gradient), {&by}));
}

std::vector<Source> sources_of(nb::handle sources, const char* what) {
  std::vector<Source> by;
  map_nested(sources, what, [&](nb::handle s) {
    if (is_variable(s.ptr()))
      by.emplace_back(as_variable(s.ptr()));
    else
      by.emplace_back(as_tensor(s.ptr()));
    return nb::none();
  });
  return by;
}

// One warning for all sources of a call.
void warn_of_none(const std::vector<std::string>& unseen) {
  if (unseen.empty()) return;
  const std::string others =
      unseen.size() == 1 ? "" : cat(" (and so for ", unseen.size() - 1, unseen.size() == 2 ? " other source)" : " other sources)");
  const std::string text = cat("GradientTape.gradient: None, since ", unseen[0], others);
  nb::object category = nb::module_::import_("lamina.errors").attr("GradientWarning");
  if (PyErr_WarnEx(category.ptr(), text.c_str(), 1) != 0) throw_python_error();
}

nb::object gradient(GradientTape& tape, nb::handle target, nb::handle sources, nb::handle output_gradients,
                    const std::string& unconnected) {
  if (unconnected != "none" && unconnected != "zero")
    throw Error(ErrorKind::invalid_argument, {.what = cat("GradientTape.gradient: unconnected_gradients is '", unconnected, "'"),
                                              .where = text(CallSite().line()),
                                              .why = "",
                                              .fix = "pass \"none\" or \"zero\""});
  std::vector<Tensor> targets, cotangents;
  map_nested(target, "gradient", [&](nb::handle t) {
    targets.push_back(target_of(t));
    return nb::none();
  });
  const std::vector<Source> by = sources_of(sources, "gradient");
  if (!output_gradients.is_none()) {
    if (PyList_Check(output_gradients.ptr()) || PyTuple_Check(output_gradients.ptr())) {
      for (const nb::object& g : elements_of(output_gradients)) cotangents.push_back(to_tensor(g));
    } else {
      cotangents.push_back(to_tensor(output_gradients));
    }
  }
  std::vector<std::string> unseen;
  std::vector<Tensor> gradients = tape.gradient(targets, by, cotangents, CallSite(), unconnected == "none" ? &unseen : nullptr);
  warn_of_none(unseen);
  for (size_t i = 0; i < by.size() && unconnected == "zero"; ++i)
    if (!gradients[i].defined())
      gradients[i] = zeros_like(by[i].variable ? Operand(*by[i].variable, CallSite()) : Operand(by[i].tensor, CallSite()));
  size_t next = 0;
  return map_nested(sources, "gradient", [&](nb::handle s) { return gradient_of(s, std::move(gradients[next++])); });
}

nb::object jacobian(GradientTape& tape, nb::handle target, nb::handle sources) {
  const Tensor of = target_of(target);
  std::vector<Tensor> all = tape.jacobian(of, sources_of(sources, "jacobian"), CallSite());
  size_t next = 0;
  return map_nested(sources, "jacobian", [&](nb::handle s) { return gradient_of(s, std::move(all[next++])); });
}

// body(inputs) -> (results, function of a list of cotangents), all flat lists of tensors.
nb::list custom_gradient(nb::callable body, nb::handle inputs) {
  return to_list(control::custom_gradient(
      [&](std::span<const Tensor> given) {
        const nb::object made = body(to_list(given));
        nb::object backward = made[1];
        return control::WithGradient{tensors_of(made[0]),
                                     [backward](std::span<const Tensor> cotangents) { return tensors_of(backward(to_list(cotangents))); }};
      },
      tensors_of(inputs), CallSite()));
}

}  // namespace

void bind_tape(nb::module_& m) {
  m.def("_custom_gradient", &custom_gradient, nb::arg("body"), nb::arg("inputs"));
  m.def("_alias", [](nb::handle x) { return to_python(as_tensor(x.ptr()).alias(CallSite())); }, nb::arg("x"));
  m.def(
      "_as_array", [](nb::handle x) { return nb::steal(wrap_argument(as_tensor(x.ptr()).with(Strength::array))); }, nb::arg("x"),
      "The tensor, which ops take as an array of the host: it gets the dtype of the tensors of its kind that it meets.");
  nb::class_<PauseContext>(m, "_TapePause")
      .def("__enter__", [](PauseContext& p) { p.enter(); })
      .def("__exit__", [](PauseContext& p, nb::args) { p.exit(); });
  nb::class_<GradientTape>(
      m, "GradientTape", nb::is_weak_referenceable(),
      "Records the ops inside `with lm.GradientTape() as tape:` and differentiates them; eager and while tracing.\n\n"
      "Trainable Variables are watched when they are read (unless watch_accessed_variables is False), tensors after watch().\n"
      "gradient() can be asked once, with persistent=True often.")
      .def(
          "__init__",
          [](GradientTape* self, bool persistent, bool watch) {
            new (self) GradientTape(GradientTape::Options{.persistent = persistent, .watch_variables = watch, .started = false});
          },
          nb::arg("persistent") = false, nb::arg("watch_accessed_variables") = true)
      .def(
          "__enter__",
          [](nb::object self) {
            instance<GradientTape>(self).start();
            return self;
          },
          nb::sig("def __enter__(self) -> GradientTape"))
      .def("__exit__", [](GradientTape& t, nb::args) { t.stop(); })
      .def(
          "watch",
          [](GradientTape& t, nb::handle x) {
            map_nested(x, "watch", [&](nb::handle one) {
              if (is_variable(one.ptr()))
                t.watch(as_variable(one.ptr()));
              else
                t.watch(as_tensor(one.ptr()));
              return nb::none();
            });
          },
          nb::arg("x"), "Records what is computed from these tensors or Variables from now on.")
      .def("gradient", gradient, nb::arg("target"), nb::arg("sources"), nb::arg("output_gradients") = nb::none(),
           nb::arg("unconnected_gradients") = "none",
           nb::sig("def gradient(self, target: object, sources: object, output_gradients: object | None = None, "
                   "unconnected_gradients: str = 'none') -> typing.Any"),
           "The gradient of the sum of all targets by each source, in the sources' structure; where nothing connects them None, or zeros "
           "with\n"
           "unconnected_gradients=\"zero\".\n\n"
           "Raises TapeUsed when a tape that is not persistent is asked twice, TypeMismatch for targets that are not floating point.")
      .def("jacobian", jacobian, nb::arg("target"), nb::arg("sources"),
           nb::sig("def jacobian(self, target: object, sources: object) -> typing.Any"),
           "The derivative of every element of the target by every element of each source: [target's shape..., source's shape...]; None "
           "where nothing\n"
           "connects them. The gradients of all elements of the target are computed together.")
      .def(
          "stop_recording", [](nb::object self) { return std::make_unique<PauseContext>(self); },
          "with tape.stop_recording(): what runs inside is not recorded.")
      .def("reset", [](GradientTape& t) { t.reset(); }, "Forgets what was recorded.");
}

}  // namespace lamina::python
