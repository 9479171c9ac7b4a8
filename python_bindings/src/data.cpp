// Reading IDX files, and datasets.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/factories.h"
#include "graph/nn/dataset.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "runtime/data/idx.h"

namespace lamina::python {
namespace {

class PassIterator {
 public:
  explicit PassIterator(const data::Dataset& d) : pass_(d.pass()) {}
  bool next() { return pass_.next(element_); }
  const std::vector<Tensor>& element() const { return element_; }

 private:
  data::Dataset::Pass pass_;
  data::Dataset::Element element_;
};

}  // namespace

void bind_data(nb::module_& root) {
  nb::module_ m = root.def_submodule("data");
  m.def(
      "read_idx",
      [](const std::string& path) {
        data::IdxArray array;
        {
          ReleasedGil release;
          array = data::read_idx(path);
        }
        return to_numpy(constant(array.bytes.data(), {array.dtype, Shape(array.shape.begin(), array.shape.end())}));
      },
      nb::arg("path"));
  nb::class_<PassIterator>(m, "Pass").def("__iter__", [](nb::object self) { return self; }).def("__next__", [](PassIterator& p) {
    if (!p.next()) throw nb::stop_iteration();
    nb::list out;
    for (const Tensor& t : p.element()) out.append(to_python(t));
    return out;
  });
  nb::class_<data::Dataset>(m, "Dataset")
      .def_static(
          "from_tensor_slices",
          [](nb::list components) {
            std::vector<Tensor> tensors;
            for (const nb::object& c : elements_of(components)) tensors.push_back(to_tensor(c));
            return data::Dataset::from_tensor_slices(std::move(tensors));
          },
          nb::arg("components"))
      .def("batch", &data::Dataset::batch, nb::arg("n"), nb::arg("drop_remainder"))
      .def("shuffle", &data::Dataset::shuffle, nb::arg("window"), nb::arg("seed").none())
      .def("repeat", &data::Dataset::repeat, nb::arg("times").none())
      .def_prop_ro("size", &data::Dataset::size)
      .def("__iter__", [](const data::Dataset& d) { return PassIterator(d); });
}

}  // namespace lamina::python
