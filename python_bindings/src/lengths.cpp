// Lengths by their text, "n" or "2*n", for programs that compute with shapes while they are traced: networks of ONNX files.
#include <algorithm>

#include <nanobind/stl/string.h>

#include "graph/functions/op_functions.h"
#include "python_bindings/src/bindings.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {
namespace {

// A whole number, or the text of a length that is open.
Dim to_dim(nb::handle d) {
  if (PyUnicode_Check(d.ptr())) return Dim::parse(nb::cast<std::string>(d));
  const Dim number(nb::cast<int64_t>(d));
  return number.known()
             ? number
             : throw Error(ErrorKind::invalid_argument,
                           {.what = cat("the length ", nb::cast<int64_t>(d), " is negative"), .where = "", .why = "", .fix = ""});
}

nb::object from_dim(Dim d) { return d.known() ? nb::object(nb::int_(d.number())) : nb::object(nb::str(d.text().c_str())); }

// The shape with these lengths. One may be -1: what they leave of as many elements.
Shape to_lengths(nb::handle lengths, const Shape* whole) {
  Shape out;
  size_t rest = 0;
  bool open = false;
  Dim others = 1;
  for (const nb::object& d : elements_of(lengths)) {
    const bool is_rest = whole && PyLong_Check(d.ptr()) && nb::cast<int64_t>(d) == -1;
    if (is_rest) rest = out.size(), open = true;
    out.push_back(is_rest ? Dim(1) : to_dim(d));
    others = others * out.back();
  }
  if (open) out[rest] = size_of(*whole) / others;
  return out;
}

// a op b, or None where that is no length.
nb::object combined(const std::string& op, nb::handle a, nb::handle b) {
  try {
    const Dim x = to_dim(a), y = to_dim(b);
    return from_dim(op == "+" ? x + y : op == "-" ? x - y : op == "*" ? x * y : x / y);
  } catch (const Error&) {
    return nb::none();
  }
}

}  // namespace

void bind_lengths(nb::module_& module) {
  module.def(
      "_lengths",
      [](nb::handle x) {
        nb::list out;
        for (const Dim d : to_operand(x).resolve().shape()) out.append(from_dim(d));
        return out;
      },
      nb::arg("x"));
  module.def("_length", &combined, nb::arg("op"), nb::arg("a"), nb::arg("b"));
  Functions m(module);
  m.def(
      "_reshape_to",
      [](nb::handle x, nb::handle lengths) {
        const Operand operand = to_operand(x);
        const Tensor t = operand.resolve();
        const Shape whole = t.shape();
        return to_python(reshape_to(Operand(t, operand.at()), to_lengths(lengths, &whole)));
      },
      nb::arg("x"), nb::arg("lengths"), "");
  m.def(
      "_broadcast_to",
      [](nb::handle x, nb::handle lengths) { return to_python(broadcast_to(to_operand(x), to_lengths(lengths, nullptr))); }, nb::arg("x"),
      nb::arg("lengths"), "");
}

}  // namespace lamina::python
