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

using data::Dataset;
using data::Element;

// A Python object that threads may hold and drop without the GIL.
class Shared {
 public:
  explicit Shared(nb::handle object)
      : object_(object.inc_ref().ptr(), [](PyObject* o) {
          if (!Py_IsInitialized()) return;
          const HeldGil gil;
          Py_DECREF(o);
        }) {}
  nb::object get() const { return nb::borrow(object_.get()); }  // under the GIL

 private:
  std::shared_ptr<PyObject> object_;
};

nb::list to_list(const Element& element) {
  nb::list out;
  for (const Tensor& t : element) out.append(to_python(t));
  return out;
}
Element to_element(nb::handle tensors) {
  Element out;
  for (const nb::object& t : elements_of(tensors)) out.push_back(to_tensor(t));
  return out;
}

data::MapFunction to_map(nb::handle function) {
  return [function = Shared(function)](const Element& element, int64_t item) {
    const HeldGil gil;
    return to_element(function.get()(to_list(element), item));
  };
}
data::Predicate to_predicate(nb::handle function) {
  return [function = Shared(function)](const Element& element, int64_t item) {
    const HeldGil gil;
    return nb::cast<bool>(nb::bool_(function.get()(to_list(element), item)));
  };
}
std::function<Dataset(const Element&, int64_t)> to_maker(nb::handle function) {
  return [function = Shared(function)](const Element& element, int64_t item) {
    const HeldGil gil;
    return nb::cast<Dataset>(function.get()(to_list(element), item));
  };
}
// start() gives an iterator over lists of tensors.
std::function<data::Generator()> to_generator(nb::handle start) {
  return [start = Shared(start)]() -> data::Generator {
    const HeldGil gil;
    return [iterator = Shared(start.get()())](Element& out) {
      const HeldGil gil;
      const nb::object next = nb::steal(PyIter_Next(iterator.get().ptr()));
      if (!next.is_valid() && PyErr_Occurred()) throw_python_error();
      if (next.is_valid()) out = to_element(next);
      return next.is_valid();
    };
  };
}

// Other threads may need the GIL for the elements that this one waits for.
class PassIterator {
 public:
  explicit PassIterator(const Dataset& d) : pass_(std::make_unique<Dataset::Pass>(d)) {}
  PassIterator(PassIterator&&) = default;
  ~PassIterator() {
    if (!pass_) return;
    const ReleasedGil release;
    pass_.reset();
  }
  bool next() {
    const ReleasedGil release;
    return pass_->next(element_);
  }
  int64_t skip(int64_t n) {
    const ReleasedGil release;
    return pass_->skip(n);
  }
  const Element& element() const { return element_; }

 private:
  std::unique_ptr<Dataset::Pass> pass_;
  Element element_;
};

void bind_dataset(nb::module_& m) {
  nb::class_<PassIterator>(m, "Pass")
      .def("__iter__", [](nb::object self) { return self; })
      .def("skip", &PassIterator::skip, nb::arg("n"))
      .def("__next__", [](PassIterator& p) {
        if (!p.next()) throw nb::stop_iteration();
        return to_list(p.element());
      });
  nb::class_<Dataset>(m, "Dataset")
      .def_static(
          "from_tensor_slices", [](nb::list components) { return Dataset::from_tensor_slices(to_element(components)); },
          nb::arg("components"))
      .def_static("range", &Dataset::range, nb::arg("n"))
      .def_static(
          "from_generator",
          [](nb::handle start, std::optional<int64_t> size) { return Dataset::from_generator(to_generator(start), size); },
          nb::arg("start"), nb::arg("size").none())
      .def_static("zip", &Dataset::zip, nb::arg("parts"))
      .def("shuffle", &Dataset::shuffle, nb::arg("window"), nb::arg("seed").none())
      .def("repeat", &Dataset::repeat, nb::arg("times").none())
      .def("take", &Dataset::take, nb::arg("n"))
      .def("skip", &Dataset::skip, nb::arg("n"))
      .def(
          "filter", [](const Dataset& d, nb::handle keep) { return d.filter(to_predicate(keep)); }, nb::arg("keep"))
      .def(
          "interleave",
          [](const Dataset& d, nb::handle make, int64_t cycle, int64_t block) { return d.interleave(to_maker(make), cycle, block); },
          nb::arg("make"), nb::arg("cycle"), nb::arg("block"))
      .def("random_split", &Dataset::random_split, nb::arg("lengths"), nb::arg("seed").none())
      .def("batch", &Dataset::batch, nb::arg("n"), nb::arg("drop_remainder"))
      .def("padded_batch", &Dataset::padded_batch, nb::arg("n"), nb::arg("value"), nb::arg("drop_remainder"))
      .def(
          "map", [](const Dataset& d, nb::handle function, int64_t threads) { return d.map(to_map(function), threads); },
          nb::arg("function"), nb::arg("threads"))
      .def("cache", &Dataset::cache)
      .def("prefetch", &Dataset::prefetch, nb::arg("n"))
      .def_prop_ro("size", &Dataset::size)
      .def_prop_ro("endless", &Dataset::endless)
      .def("__iter__", [](const Dataset& d) { return PassIterator(d); });
}

}  // namespace

void bind_data(nb::module_& root) {
  nb::module_ m = root.def_submodule("data");
  m.attr("AUTOTUNE") = data::AUTOTUNE;
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
  m.def("_threads", &data::reading_threads, "How many threads read ahead.");
  m.def(
      "_end_threads",
      [](int64_t patience) {
        const ReleasedGil release;
        data::end_reading_threads(std::chrono::milliseconds(patience));
      },
      nb::arg("patience"));
  bind_dataset(m);
}

}  // namespace lamina::python
