// Files of tensors.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "graph/program/tensor_file.h"
#include "python_bindings/src/convert.h"
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
}

}  // namespace lamina::python
