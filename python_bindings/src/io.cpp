// Files of tensors, and of C code.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "graph/export_c/export_c.h"
#include "graph/program/tensor_file.h"
#include "python_bindings/src/convert.h"
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
        replacement.file().write(bytes);
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
}

}  // namespace lamina::python
