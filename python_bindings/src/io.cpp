// Files of tensors and of C code, and saved programs.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/export_c/export_c.h"
#include "graph/program/module.h"
#include "graph/program/tensor_file.h"
#include "python_bindings/src/function.h"
#include "runtime/io/files.h"

namespace lamina::python {

void bind_io(nb::module_& m) {
  m.def(
      "_save_tensors",
      [](const std::string& path, nb::dict tensors, std::map<std::string, std::string> metadata) {
        TensorFile content{{}, std::move(metadata)};
        for (auto [name, value] : tensors) content.tensors.emplace(nb::cast<std::string>(name), to_operand(value).resolve());
        ReleasedGil release;
        save_tensors(path, content);
      },
      nb::arg("path"), nb::arg("tensors"), nb::arg("metadata"));
  m.def(
      "_load_tensors",
      [](const std::string& path) {
        std::map<std::string, Tensor> tensors;
        {
          ReleasedGil release;
          tensors = load_tensors(path).tensors;
        }
        nb::dict out;
        for (auto& [name, tensor] : tensors) out[nb::cast(name)] = to_python(std::move(tensor));
        return out;
      },
      nb::arg("path"));
  m.def("_load_metadata", load_metadata, nb::arg("path"));
  m.def(
      "_replace_file",
      [](const std::string& path, nb::bytes content) {
        const auto bytes = std::as_bytes(std::span(content.c_str(), content.size()));
        ReleasedGil release;
        io::Replacement replacement(path, false);
        replacement.file().write(0, bytes);
        replacement.commit();
      },
      nb::arg("path"), nb::arg("content"));
  m.def(
      "_export_c",
      [](nb::dict functions, const std::string& folder, const std::string& name, bool weights_in_file,
         std::map<std::string, int64_t> lengths, nb::dict variables) {
        std::vector<ExportedFunction> exported;
        for (auto [own, concrete] : functions) exported.push_back({nb::cast<std::string>(own), instance<Concrete>(concrete).function});
        ExportOptions options{name, weights_in_file, std::move(lengths), {}};
        for (auto [own, variable] : variables) options.variables.emplace(nb::cast<std::string>(own), as_variable(variable.ptr()));
        ReleasedGil release;
        export_c(exported, folder, options);
      },
      nb::arg("functions"), nb::arg("folder"), nb::arg("name"), nb::arg("weights_in_file"), nb::arg("lengths"), nb::arg("variables"));

  nb::class_<Module>(m, "_Module", "What lm.save writes: Variables, graphs by function, and a text of the Python layer.")
      .def(nb::init<>())
      .def_static(
          "load",
          [](const std::string& path) {
            ReleasedGil release;
            return Module::load(path);
          },
          nb::arg("path"))
      .def(
          "save",
          [](const Module& module, const std::string& path) {
            ReleasedGil release;
            module.save(path);
          },
          nb::arg("path"))
      .def(
          "add_variable", [](Module& module, const std::string& name, const Variable& v) { module.add(name, v); }, nb::arg("name"),
          nb::arg("variable"))
      .def(
          "add_graph",
          [](Module& module, const std::string& function, const Concrete& graph, std::vector<std::string> arguments,
             std::vector<std::string> outputs) {
            module.add(function, Module::Graph{graph.function, std::move(arguments), std::move(outputs)});
          },
          nb::arg("function"), nb::arg("graph"), nb::arg("arguments"), nb::arg("outputs"))
      .def("add_signature", &Module::add_signature, nb::arg("name"), nb::arg("function"))
      .def_prop_ro("variables", &Module::variables)
      .def_prop_ro("signatures", &Module::signatures)
      .def_prop_ro("functions",
                   [](const Module& module) {
                     nb::dict out;
                     for (const auto& [name, graphs] : module.functions()) {
                       nb::list list;
                       for (const Module::Graph& graph : graphs)
                         list.append(nb::make_tuple(Concrete{graph.function}, graph.arguments, graph.outputs));
                       out[nb::cast(name)] = list;
                     }
                     return out;
                   })
      .def_rw("language", &Module::language)
      .def("__str__", &Module::str);
}

}  // namespace lamina::python
