// lm.GradientTape.
#include "graph/frontend/tape.h"

#include <memory>

#include <nanobind/stl/unique_ptr.h>

#include "python_bindings/src/convert.h"

namespace lamina::python {
namespace {

// Applies f to the Tensors and Variables of a nested structure, or builds the structure again from f's results.
template <class F>
nb::object map_nested(nb::handle value, const char* what, F&& f) {
  PyObject* o = value.ptr();
  if (PyList_Check(o)) {
    nb::list out;
    for (nb::handle one : value) out.append(map_nested(one, what, f));
    return out;
  }
  if (PyTuple_Check(o)) {
    nb::list out;
    for (nb::handle one : value) out.append(map_nested(one, what, f));
    return nb::tuple(out);
  }
  if (PyDict_Check(o)) {
    nb::dict out;
    for (auto [key, one] : nb::borrow<nb::dict>(value)) out[key] = map_nested(one, what, f);
    return out;
  }
  if (!is_tensor(o) && !is_variable(o)) {
    throw_type_error(cat("GradientTape.", what, ": a ", Py_TYPE(o)->tp_name, " is not a tensor or Variable"), "", "pass tensors or Variables, or lists of them");
  }
  return f(value);
}

class PauseContext {
 public:
  explicit PauseContext(nb::object tape) : tape_(std::move(tape)) {}
  PauseContext(const PauseContext&) = delete;
  void enter() { pauses_.push_back(std::make_unique<GradientTape::Pause>(nb::inst_ptr<GradientTape>(tape_)->stop_recording())); }
  void exit() {
    if (!pauses_.empty()) pauses_.pop_back();
  }

 private:
  nb::object tape_;
  std::vector<std::unique_ptr<GradientTape::Pause>> pauses_;
};

nb::object gradient(GradientTape& tape, nb::handle target, nb::handle sources, nb::handle output_gradients) {
  std::vector<Tensor> targets, cotangents;
  std::vector<Source> by;
  map_nested(target, "gradient", [&](nb::handle t) {
    targets.push_back(to_tensor(t));
    return nb::none();
  });
  map_nested(sources, "gradient", [&](nb::handle s) {
    if (is_variable(s.ptr())) by.emplace_back(as_variable(s.ptr()));
    else by.emplace_back(as_tensor(s.ptr()));
    return nb::none();
  });
  if (!output_gradients.is_none()) {
    if (PyList_Check(output_gradients.ptr()) || PyTuple_Check(output_gradients.ptr())) {
      for (nb::handle g : output_gradients) cotangents.push_back(to_tensor(g));
    } else {
      cotangents.push_back(to_tensor(output_gradients));
    }
  }
  std::vector<Tensor> gradients = tape.gradient(targets, by, cotangents, CallSite());
  size_t next = 0;
  return map_nested(sources, "gradient", [&](nb::handle) { return to_python(std::move(gradients[next++])); });
}

}  // namespace

void bind_tape(nb::module_& m) {
  nb::class_<PauseContext>(m, "_TapePause")
      .def("__enter__", [](PauseContext& p) { p.enter(); })
      .def("__exit__", [](PauseContext& p, nb::args) { p.exit(); });
  nb::class_<GradientTape>(m, "GradientTape", nb::is_weak_referenceable(),
                           "Records the ops inside `with lm.GradientTape() as tape:` and differentiates them; eager and while tracing.\n\n"
                           "Trainable Variables are watched when they are read (unless watch_accessed_variables is False), tensors after watch().\n"
                           "gradient() can be asked once, with persistent=True often.")
      .def("__init__", [](GradientTape* self, bool persistent, bool watch) {
        new (self) GradientTape(GradientTape::Options{.persistent = persistent, .watch_variables = watch, .started = false});
      }, nb::arg("persistent") = false, nb::arg("watch_accessed_variables") = true)
      .def("__enter__", [](nb::object self) {
        nb::inst_ptr<GradientTape>(self)->start();
        return self;
      })
      .def("__exit__", [](GradientTape& t, nb::args) { t.stop(); })
      .def("watch", [](GradientTape& t, nb::handle x) {
        map_nested(x, "watch", [&](nb::handle one) {
          if (is_variable(one.ptr())) t.watch(as_variable(one.ptr()));
          else t.watch(as_tensor(one.ptr()));
          return nb::none();
        });
      }, nb::arg("x"), "Records what is computed from these tensors or Variables from now on.")
      .def("gradient", gradient, nb::arg("target"), nb::arg("sources"), nb::arg("output_gradients") = nb::none(),
           "The gradient of the sum of all targets by each source, in the sources' structure; None where nothing connects them.\n\n"
           "Raises TapeUsed when a tape that is not persistent is asked twice, TypeMismatch for targets that are not floating point.")
      .def("stop_recording", [](nb::object self) { return std::make_unique<PauseContext>(self); }, "with tape.stop_recording(): what runs inside is not recorded.")
      .def("reset", [](GradientTape& t) { t.reset(); }, "Forgets what was recorded.");
}

}  // namespace lamina::python
