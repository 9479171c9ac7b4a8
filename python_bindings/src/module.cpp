// lamina._core: the Python module. Each bind function's file documents its names.
#include <set>
#include <string>
#include <string_view>

#include <nanobind/stl/string.h>

#include "python_bindings/src/bindings.h"
#include "python_bindings/src/border.h"
#include "python_bindings/src/profiler.h"
#include "python_bindings/src/raises.h"
#include "python_bindings/src/trainable.h"

namespace {

namespace nb = nanobind;

// Names that lamina exports unchanged, such as lamina.abs: all public names except those that the package wraps or uses internally.
nb::list exports_of(nb::handle m) {
  const std::set<std::string_view> inner{"At",
                                         "AtIndexer",
                                         "Inspection",
                                         "accuracy",
                                         "autograph_is_active",
                                         "checkpoint",
                                         "cond",
                                         "data",
                                         "distributed",
                                         "fma_peak",
                                         "function",
                                         "linalg",
                                         "losses",
                                         "nn",
                                         "optim",
                                         "profiler",
                                         "scan",
                                         "schedules",
                                         "set_training",
                                         "trainable_changed",
                                         "trainable_changes",
                                         "trainable_read",
                                         "training",
                                         "unknown_name",
                                         "while_loop"};
  nb::list names;
  for (nb::handle name : nb::steal(PyObject_Dir(m.ptr()))) {
    const std::string text = nb::cast<std::string>(name);
    if (text == "__version__" || (text[0] != '_' && !inner.contains(text))) names.append(name);
  }
  return names;
}

}  // namespace

NB_MODULE(_core, m) {
  using namespace lamina::python;
  nb::set_leak_warnings(false);  // dtypes and a few tables live as long as the process
  m.doc() = "The compiled part of lamina; use `import lamina as lm`.";
  m.attr("__version__") = LAMINA_VERSION;
  m.def("_raised_by", &raised_by, nb::arg("name"));
  bind_errors(m);
  bind_dtypes(m);
  bind_tensor(m);
  bind_variable(m);
  bind_ops(m);
  bind_reductions(m);
  bind_indexing(m);
  bind_shape_functions(m);
  bind_sorting(m);
  bind_linalg(m);
  bind_math(m);
  bind_inspect(m);
  bind_lengths(m);
  bind_function(m);
  bind_trainable(m);
  bind_tape(m);
  bind_vmap(m);
  bind_devices(m);
  bind_random(m);
  bind_nn(m);
  bind_optimizers(m);
  bind_image(m);
  bind_sequence_layers(m);
  bind_data(m);
  bind_distributed(m);
  bind_io(m);
  bind_control_flow(m);
  bind_reporting(m);
  bind_profiler(m);
  m.attr("__all__") = exports_of(m);
  bind_border(m);  // last, because it wraps all of them
}
