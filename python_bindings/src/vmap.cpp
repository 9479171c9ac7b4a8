// lm.vmap on flat lists (lamina/vmap.py handles structures), and stacked Variables.
#include "graph/frontend/vmap.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/model_axis.h"
#include "graph/frontend/trace.h"
#include "graph/functions/random.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/raises.h"
#include "python_bindings/src/training_flag.h"

namespace lamina::python {
namespace {

// body([tensor, ...]) -> ([tensor, ...], [axis or None, ...]). What was an array of the host is one for the body too.
VmapResults run_body(nb::handle body, std::span<const VmapArgument> arguments, std::span<const Tensor> tensors, bool eager) {
  HeldGil gil;
  const AutographScope scope(autograph_flag || eager);  // eagerly, the body is traced for this call alone, and converted
  nb::list given;
  for (size_t i = 0; i < tensors.size(); ++i) given.append(nb::steal(wrap_argument(tensors[i].with(arguments[i].tensor.strength()))));
  const auto [results, axes] = nb::cast<std::pair<nb::list, nb::list>>(body(given));
  VmapResults out;
  for (const nb::object& r : elements_of(results))
    out.tensors.push_back(is_variable(r.ptr()) ? as_variable(r.ptr()).read(CallSite()) : to_tensor(r));
  for (const nb::object& a : elements_of(axes)) out.axes.push_back(a.is_none() ? MapAxis() : MapAxis(nb::cast<int64_t>(a)));
  return out;
}

nb::list vmap(const std::string& name, nb::list tensors, const std::vector<std::optional<int64_t>>& axes,
              const std::vector<std::string>& names, std::optional<int64_t> axis_size, nb::handle body) {
  std::vector<VmapArgument> arguments;
  for (size_t i = 0; i < tensors.size(); ++i) arguments.push_back({to_argument(tensors[i]), axes.at(i), names.at(i)});
  const SourceLine line = CallSite().line();
  const bool eager = executing_eagerly();
  std::vector<Tensor> results;
  {
    ReleasedGil release;
    results =
        vmap_call(name, arguments, axis_size, line, [&](std::span<const Tensor> one) { return run_body(body, arguments, one, eager); });
  }
  nb::list out;
  for (Tensor& t : results) out.append(to_python(std::move(t)));
  return out;
}

}  // namespace

void bind_vmap(nb::module_& module) {
  Functions m(module);
  m.def("_vmap", vmap, nb::arg("name"), nb::arg("tensors"), nb::arg("axes"), nb::arg("names"), nb::arg("axis_size").none(),
        nb::arg("body"));
  m.def(
      "per_model",
      [](nb::handle values, const std::string& name, nb::handle dtype) {
        return per_model(to_tensor(values, to_optional_dtype(dtype)), name);
      },
      nb::arg("values"), nb::arg("name") = "per_model", nb::arg("dtype") = nb::none(),
      "Hyperparameters of an ensemble: a Variable with a value per model, [models, ...], that inside of lm.vmap is seen as one model's.\n\n"
      "Optimizers take one wherever they take a number: lm.optim.SGD(lm.per_model([0.1, 0.01])). Raises InvalidArgument for a value "
      "without axes.");
  m.def(
      "_stack_variable", [](const Variable& v, nb::handle values) { v.stack(to_tensor(values)); }, nb::arg("variable"), nb::arg("values"));
  m.def(
      "_is_mapped", [](const Variable& v) { return ModelAxis::of(*v.handle()) != nullptr; }, nb::arg("variable"),
      "Whether a running call of lm.vmap maps the stacked Variable.");
  m.def("_in_vmap", [] { return ModelAxis::signature() != 0; });
  m.def(
      "_use_generator", [](std::optional<Variable> generator) { return random::use_generator(std::move(generator)); },
      nb::arg("generator").none());
}

}  // namespace lamina::python
