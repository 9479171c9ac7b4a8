// Conversions for layers: initializers and activations from Python.
#pragma once
#include "graph/nn/activation.h"
#include "graph/nn/initializer.h"
#include "graph/nn/layer.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

// From a name, an Initializer, or a Python callable (shape) -> array.
nn::Initializer to_initializer(nb::handle value);
// From a name, a function of a tensor, or None.
nn::Activation to_activation(nb::handle value);

// autocast, of a layer with a dtype of its own.
template <class L>
void bind_autocast(nb::class_<L>& c) {
  c.def_prop_rw("autocast", [](const L& l) { return l.autocast(); }, [](L& l, bool on) { l.set_autocast(on); });
}

}  // namespace lamina::python
