// Conversions for layers: initializers and activations from Python.
#pragma once
#include <nanobind/stl/vector.h>

#include "graph/nn/activation.h"
#include "graph/nn/initializer.h"
#include "graph/nn/layer.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

// From a name, an Initializer, or a Python callable (shape) -> array.
nn::Initializer to_initializer(nb::handle value);
// From a name, a function of a tensor, or None.
nn::Activation to_activation(nb::handle value);

// The weights of a layer, for copies of it.
template <class L>
void bind_weights(nb::class_<L>& c) {
  c.def("_variables", [](const L& l) { return l.variables(); });
  c.def("_take_weights", [](L& l, std::vector<Variable> weights) { l.take_weights(std::move(weights)); }, nb::arg("weights"));
}
// The same, and autocast, of a layer with a dtype of its own.
template <class L>
void bind_autocast(nb::class_<L>& c) {
  bind_weights(c);
  c.def_prop_rw("autocast", [](const L& l) { return l.autocast(); }, [](L& l, bool on) { l.set_autocast(on); });
}

}  // namespace lamina::python
