// x[...], x.at[...] and the functions that choose elements by position.
#include "graph/functions/indexing.h"

#include <nanobind/stl/optional.h>

#include "python_bindings/src/methods.h"
#include "python_bindings/src/operators.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {
namespace {

std::optional<int64_t> bound(PyObject* o) {
  if (o == Py_None) return {};
  if (!PyIndex_Check(o))
    throw_type_error(cat("index: a slice from or to ", a_type(o)), "the places between elements are integers",
                     "pass ints in x[start:stop:step]");
  const Py_ssize_t n = PyNumber_AsSsize_t(o, nullptr);  // clamped, as in Python's slices
  if (n == -1 && PyErr_Occurred()) throw_python_error();
  return n;
}

IndexPart index_part(PyObject* o) {
  IndexPart part;
  if (o == Py_None) {
    part.kind = IndexPart::Kind::new_axis;
  } else if (o == Py_Ellipsis) {
    part.kind = IndexPart::Kind::rest;
  } else if (PySlice_Check(o)) {
    PySliceObject* s = reinterpret_cast<PySliceObject*>(o);
    part = IndexPart::range(bound(s->start), bound(s->stop), bound(s->step));
  } else if (is_tensor(o) || is_variable(o) || PyList_Check(o) || (is_array(o) && !(PyIndex_Check(o) && !PyObject_CheckBuffer(o)))) {
    part.kind = IndexPart::Kind::tensor;
    part.indices = to_tensor(o);
    // An empty list selects nothing; a list without numbers has no dtype.
    if (PyList_Check(o) && part.indices.size() == 0) part.indices = astype(Operand(part.indices, CallSite()), DType::i64);
  } else if (PyIndex_Check(o) && !PyBool_Check(o)) {
    nb::object whole = nb::steal(PyNumber_Index(o));
    if (!whole.is_valid()) throw_python_error();
    int overflow = 0;
    const long long n = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
    if (overflow)
      throw Error(ErrorKind::index, {.what = cat("index ", nb::str(whole).c_str(), " is out of range"),
                                     .where = text(CallSite().line()),
                                     .why = "no axis has so many elements",
                                     .fix = "pass a smaller number"});
    part = IndexPart::at(n);
  } else {
    throw_type_error(std::string("a tensor cannot be indexed with a ") + Py_TYPE(o)->tp_name,
                     "it says neither which elements nor which axes", "use integers, slices, ..., None, or integer and bool tensors");
  }
  return part;
}

std::vector<IndexPart> index_parts(PyObject* key) {
  std::vector<IndexPart> parts;
  if (PyTuple_Check(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) parts.push_back(index_part(PyTuple_GET_ITEM(key, i)));
  } else {
    parts.push_back(index_part(key));
  }
  return parts;
}

// The result of x.at, to be indexed.
struct AtIndexer {
  Tensor x;
};

nb::object to_tuple(std::vector<Tensor> tensors) {
  nb::list out;
  for (Tensor& t : tensors) out.append(to_python(std::move(t)));
  return nb::tuple(out);
}

void bind_at(nb::module_& m) {
  nb::class_<AtIndexer>(m, "AtIndexer", "What x.at is; x.at[...] are the elements to change.")
      .def(
          "__getitem__", [](const AtIndexer& a, nb::handle key) { return At(a.x, index_parts(key.ptr()), CallSite()); },
          nb::arg("key").none());
  nb::class_<At>(m, "At", "Some elements of a tensor, to be changed in a copy of it. Values broadcast to their shape.")
      .def(
          "get", [](const At& a) { return to_python(a.get()); }, "The elements themselves: x[...].")
      .def(
          "set", [](const At& a, nb::handle v) { return to_python(a.set(to_operand(v))); }, nb::arg("values"),
          "x with these elements set; of several values for one element the last counts.")
      .def(
          "add", [](const At& a, nb::handle v) { return to_python(a.add(to_operand(v))); }, nb::arg("values"),
          "x with the values added to these elements, once for each time that an element is named.")
      .def(
          "mul", [](const At& a, nb::handle v) { return to_python(a.mul(to_operand(v))); }, nb::arg("values"),
          "x with these elements multiplied.")
      .def(
          "min", [](const At& a, nb::handle v) { return to_python(a.min(to_operand(v))); }, nb::arg("values"),
          "x with these elements lowered to the values where they are larger.")
      .def(
          "max", [](const At& a, nb::handle v) { return to_python(a.max(to_operand(v))); }, nb::arg("values"),
          "x with these elements raised to the values where they are smaller.");
  add_property(
      m, "at", [](nb::handle self) { return AtIndexer{to_tensor(self)}; },
      "x.at[...].set(v), .add(v), .mul(v), .min(v), .max(v): a tensor like x with some elements changed. [...] as in x[...].");
}

}  // namespace

PyObject* index_with(const Operand& x, PyObject* key) noexcept {
  return guarded([&] { return wrap_like(index(x, index_parts(key)), {&x}); });
}

void bind_indexing(nb::module_& module) {
  bind_at(module);
  Functions m(module);
  add_both(
      m, "take",
      [](nb::handle x, nb::handle indices, std::optional<int> axis) {
        return to_python(axis ? take(to_operand(x), to_operand(indices), *axis) : take(to_operand(x), to_operand(indices)));
      },
      "The elements of the flattened x, or the parts along an axis, that integers name.", nb::arg("indices"), nb::arg("axis") = nb::none());
  add_method(m, "__reversed__", [](nb::handle self) { return nb::module_::import_("builtins").attr("list")(self).attr("__reversed__")(); });
  m.def(
      "take_along_axis",
      [](nb::handle x, nb::handle indices, int axis) { return to_python(take_along_axis(to_operand(x), to_operand(indices), axis)); },
      nb::arg("x"), nb::arg("indices"), nb::arg("axis") = -1,
      "Element [..., i, ...] is x[..., indices[..., i, ...], ...], with i along the axis; the other axes broadcast. Puts what argsort "
      "gives into effect.");
  m.def(
      "gather_nd", [](nb::handle x, nb::handle indices) { return to_python(gather_nd(to_operand(x), to_operand(indices))); }, nb::arg("x"),
      nb::arg("indices"),
      "The last axis of indices holds a place along each of x's first axes: element [i..., j...] is x[indices[i..., 0], indices[i..., 1], "
      "..., j...].");
  m.def(
      "scatter_nd",
      [](nb::handle indices, nb::handle updates, nb::handle shape) {
        return to_python(scatter_nd(to_operand(indices), to_operand(updates), to_shape(shape)));
      },
      nb::arg("indices"), nb::arg("updates"), nb::arg("shape"), "Zeros of a shape with the updates added where gather_nd would read.");
  m.def(
      "scatter_add",
      [](nb::handle updates, nb::handle indices, nb::handle shape, int axis) {
        return to_python(scatter_add(to_operand(updates), to_operand(indices), to_shape(shape), axis));
      },
      nb::arg("updates"), nb::arg("indices"), nb::arg("shape"), nb::arg("axis") = 0, doc_of("scatter_add"));
  add_both(
      m, "nonzero",
      [](nb::handle x, std::optional<int64_t> size, int64_t fill_value) {
        return to_tuple(size ? nonzero(to_operand(x), *size, fill_value) : nonzero(to_operand(x)));
      },
      "Where x is not zero: one int64 vector per axis. Their length follows from data, so inside a traced function pass size: the first "
      "`size` places,\n"
      "and fill_value for those that are missing.",
      nb::arg("size") = nb::none(), nb::arg("fill_value") = 0);
}

}  // namespace lamina::python
