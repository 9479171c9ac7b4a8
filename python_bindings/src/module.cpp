// lamina._core: the Python module. What a name means in Python is in the file of its bind function.
#include "python_bindings/src/bindings.h"
#include "python_bindings/src/border.h"
#include "python_bindings/src/profiler.h"
#include "python_bindings/src/trainable.h"

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using namespace lamina::python;
  nb::set_leak_warnings(false);  // dtypes and a few tables live as long as the process
  m.doc() = "The compiled part of lamina; use `import lamina as lm`.";
  m.attr("__version__") = LAMINA_VERSION;
  bind_errors(m);
  bind_dtypes(m);
  bind_tensor(m);
  bind_variable(m);
  bind_ops(m);
  bind_indexing(m);
  bind_shape_functions(m);
  bind_sorting(m);
  bind_math(m);
  bind_inspect(m);
  bind_function(m);
  bind_trainable(m);
  bind_tape(m);
  bind_vmap(m);
  bind_devices(m);
  bind_random(m);
  bind_nn(m);
  bind_image(m);
  bind_data(m);
  bind_io(m);
  bind_control_flow(m);
  bind_reporting(m);
  bind_profiler(m);
  bind_border(m);  // last: it is put around all of them
}
