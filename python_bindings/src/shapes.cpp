// Functions of shapes, and sums of products over named axes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "graph/functions/einsum.h"
#include "graph/functions/shape_functions.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/methods.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {
namespace {

// NumPy's forms: n, (before, after), ((before, after), ...).
std::vector<std::pair<int64_t, int64_t>> to_widths(nb::handle widths, int rank) {
  std::vector<std::pair<int64_t, int64_t>> out;
  auto pair = [](nb::handle one) -> std::pair<int64_t, int64_t> {
    const std::vector<int64_t> numbers = to_axes(one);
    if (numbers.empty() || numbers.size() > 2)
      throw_type_error("pad: a width is not (before, after)", "", "pass n, (before, after), or one pair per axis");
    return {numbers.front(), numbers.back()};
  };
  const bool one_for_all = is_one_number(widths) || (nb::len(widths) == 2 && is_one_number(widths[0]) && is_one_number(widths[1]));
  if (one_for_all) {
    out.assign(size_t(rank), pair(widths));
  } else {
    for (const nb::object& one : elements_of(widths)) out.push_back(pair(one));
    if (out.size() == 1) out.assign(size_t(rank), out[0]);
  }
  return out;
}

void bind_order(nb::module_& module) {
  Functions m(module);
  add_both(
      m, "split",
      [](nb::handle x, nb::handle parts, int axis) {
        const Operand operand = to_operand(x);
        return to_list(is_one_number(parts) ? split(operand, to_whole(parts), axis) : split_sizes(operand, to_axes(parts), axis));
      },
      "A list of parts along an axis: a number of equal ones, or a list of their lengths, of which one may be -1 (not of the places "
      "between them, as\n"
      "NumPy's split).",
      nb::arg("parts"), nb::arg("axis") = 0);
  m.def(
      "flip", [](nb::handle x, nb::handle axis) { return to_python(flip(to_operand(x), to_axes_or_all(axis))); }, nb::arg("x"),
      nb::arg("axis") = nb::none(), "x in reverse order along an axis or several, along all without");
  m.def(
      "roll",
      [](nb::handle x, nb::handle shift, nb::handle axis) {
        if (axis.is_none()) return to_python(roll(to_operand(x), to_whole(shift)));
        Axes axes = to_axes(axis);
        std::vector<int64_t> shifts = to_axes(shift);
        if (shifts.size() == 1) shifts.resize(axes.size(), shifts[0]);
        if (axes.size() == 1) axes.resize(shifts.size(), axes[0]);
        return to_python(roll(to_operand(x), shifts, axes));
      },
      nb::arg("x"), nb::arg("shift"), nb::arg("axis") = nb::none(),
      "Elements moved along an axis; those that leave at the end come back in front. Without an axis: of the flattened x.");
  m.def(
      "moveaxis",
      [](nb::handle x, nb::handle source, nb::handle destination) {
        return to_python(moveaxis(to_operand(x), to_axes(source), to_axes(destination)));
      },
      nb::arg("x"), nb::arg("source"), nb::arg("destination"), "Some axes at other places; the others keep their order");
  add_both(
      m, "swapaxes", [](nb::handle x, int a, int b) { return to_python(swapaxes(to_operand(x), a, b)); }, "Two axes exchanged",
      nb::arg("axis1"), nb::arg("axis2"));
  add_both(m, "ravel", [](nb::handle x) { return to_python(flatten(to_operand(x))); }, "The elements as a vector, in row-major order");
  add_method(
      m, "flatten", [](nb::handle x, int first_axis) { return to_python(flatten(to_operand(x), first_axis)); }, nb::arg("first_axis") = 0,
      "The axes from first_axis on as one.");
}

void bind_repetition(nb::module_& module) {
  Functions m(module);
  m.def(
      "tile", [](nb::handle x, nb::handle reps) { return to_python(tile(to_operand(x), to_axes(reps))); }, nb::arg("x"), nb::arg("reps"),
      "x side by side, so often along each axis");
  add_both(
      m, "repeat",
      [](nb::handle x, nb::handle repeats, std::optional<int> axis) {
        const Operand operand = axis ? to_operand(x) : Operand(flatten(to_operand(x)), CallSite());
        return to_python(is_one_number(repeats) ? repeat(operand, to_whole(repeats), axis.value_or(0))
                                                : repeat(operand, to_axes(repeats), axis.value_or(0)));
      },
      "Each element so many times along an axis; a list says how often for each one. Without an axis: of the flattened x.",
      nb::arg("repeats"), nb::arg("axis") = nb::none());
  m.def(
      "pad",
      [](nb::handle x, nb::handle widths, const std::string& mode, nb::handle value) {
        const Operand operand = to_operand(x);
        const int rank = operand.is_tensor() ? operand.tensor().rank() : 0;
        return to_python(pad(operand, to_widths(widths, rank), parse_pad_mode(mode), to_operand(value)));
      },
      nb::arg("x"), nb::arg("widths"), nb::arg("mode") = "constant", nb::arg("value") = 0,
      "x with elements added around it: n, (before, after), or a pair per axis. Modes: \"constant\" (value), \"edge\", \"reflect\", "
      "\"symmetric\", \"wrap\",\n"
      "as NumPy's pad. Raises InvalidArgument for negative widths.");
}

void bind_matrices(nb::module_& module) {
  Functions m(module);
  m.def(
      "tril", [](nb::handle x, int64_t k) { return to_python(tril(to_operand(x), k)); }, nb::arg("x"), nb::arg("k") = 0,
      "The last two axes' lower triangle: zero above diagonal k");
  m.def(
      "triu", [](nb::handle x, int64_t k) { return to_python(triu(to_operand(x), k)); }, nb::arg("x"), nb::arg("k") = 0,
      "The last two axes' upper triangle: zero below diagonal k");
  m.def(
      "eye",
      [](int64_t n, std::optional<int64_t> columns, int64_t k, nb::handle dtype) {
        return to_python(eye(n, columns.value_or(n), k, dtype_or(dtype, DType::f32)));
      },
      nb::arg("n"), nb::arg("m") = nb::none(), nb::arg("k") = 0, nb::arg("dtype") = nb::none(), "An n x m matrix with ones on diagonal k");
  m.def(
      "diag", [](nb::handle x, int64_t k) { return to_python(diag(to_operand(x), k)); }, nb::arg("x"), nb::arg("k") = 0,
      "A square matrix with a vector on diagonal k; of a matrix its diagonal k");
  add_both(
      m, "diagonal",
      [](nb::handle x, int64_t offset, int axis1, int axis2) { return to_python(diagonal(to_operand(x), offset, axis1, axis2)); },
      "The diagonal through two axes, as a new last one", nb::arg("offset") = 0, nb::arg("axis1") = 0, nb::arg("axis2") = 1);
  m.def(
      "full_like",
      [](nb::handle x, nb::handle value, nb::handle dtype) {
        return to_python(dtype.is_none() ? full_like(to_operand(x), to_operand(value))
                                         : full_like(to_operand(x), to_operand(value), to_dtype(dtype)));
      },
      nb::arg("x"), nb::arg("value"), nb::arg("dtype") = nb::none(),
      "One number everywhere, in x's shape, and its dtype unless one is given");
  m.def(
      "linspace",
      [](NumberArgument start, NumberArgument stop, int64_t num, bool endpoint, nb::handle dtype) {
        const auto is_value = [](nb::handle h) { return is_tensor(h.ptr()) || is_variable(h.ptr()); };
        if (!is_value(start) && !is_value(stop))
          return to_python(linspace(to_number(start), to_number(stop), num, endpoint, dtype_or(dtype, DType::f32)));
        const auto [first, last] = to_operands(start, stop);
        return to_python(linspace(first, last, num, endpoint, to_optional_dtype(dtype)));
      },
      nb::arg("start"), nb::arg("stop"), nb::arg("num") = 50, nb::arg("endpoint") = true, nb::arg("dtype") = nb::none(),
      "num numbers from start to stop, along a new first axis if these are tensors, to which gradients flow; without the endpoint the last "
      "is one step before it");
  m.def(
      "meshgrid",
      [](nb::args vectors, const std::string& indexing) {
        if (indexing != "xy" && indexing != "ij") throw_type_error(cat("meshgrid: indexing '", indexing, "'"), "", "pass \"xy\" or \"ij\"");
        return to_list(meshgrid(tensors_of(vectors), indexing == "ij", CallSite()));
      },
      nb::arg("vectors"), nb::kw_only(), nb::arg("indexing") = "xy",
      "A list with each vector spread over the grid that they span; \"ij\": axis i is vector i's, \"xy\": the first two are exchanged");
}

void bind_products(nb::module_& module) {
  Functions m(module);
  m.def(
      "einsum",
      [](const std::string& expression, nb::args operands) {
        std::vector<Tensor> given;
        for (const nb::handle operand : operands) given.push_back(to_operand(operand).resolve());
        return to_python(einsum(expression, given, CallSite()));
      },
      nb::arg("expression"), nb::arg("operands"),
      "Sums of products over named axes, as NumPy's einsum: lm.einsum(\"ijk,kl->ijl\", a, b). Without \"->\" the result has the letters "
      "that occur once,\n"
      "in alphabetical order; \"...\" stands for axes that broadcast; a letter twice in one operand is its diagonal. Of several operands "
      "the order with\n"
      "the fewest multiplications is taken. Raises InvalidArgument for what does not fit, TypeMismatch for different dtypes.");
  m.def(
      "tensordot",
      [](nb::handle a, nb::handle b, nb::handle axes) {
        if (is_one_number(axes)) return to_python(tensordot(to_operand(a), to_operand(b), int(to_whole(axes))));
        if (nb::len(axes) != 2) throw_type_error("tensordot: axes is not a pair", "", "pass a number of axes, or (axes of a, axes of b)");
        return to_python(tensordot(to_operand(a), to_operand(b), to_axes(axes[0]), to_axes(axes[1])));
      },
      nb::arg("a"), nb::arg("b"), nb::arg("axes") = 2,
      "The sum of products over the last axes of a and the first of b, so many; or over (axes of a, axes of b)");
  m.def(
      "dot", [](nb::handle a, nb::handle b) { return to_python(dot(to_operand(a), to_operand(b))); }, nb::arg("a"), nb::arg("b"),
      "Of vectors the inner product, of scalars the product, otherwise the sum over a's last axis and b's last but one (a vector's only "
      "one)");
  m.def(
      "vdot", [](nb::handle a, nb::handle b) { return to_python(vdot(to_operand(a), to_operand(b))); }, nb::arg("a"), nb::arg("b"),
      "The inner product of the flattened tensors, of complex a its conjugate");
  m.def(
      "inner", [](nb::handle a, nb::handle b) { return to_python(inner(to_operand(a), to_operand(b))); }, nb::arg("a"), nb::arg("b"),
      "The sum of products over the last axis of both");
  m.def(
      "outer", [](nb::handle a, nb::handle b) { return to_python(outer(to_operand(a), to_operand(b))); }, nb::arg("a"), nb::arg("b"),
      "Every product of an element of a (rows) and one of b (columns)");
}

}  // namespace

void bind_shape_functions(nb::module_& m) {
  bind_order(m);
  bind_repetition(m);
  bind_matrices(m);
  bind_products(m);
}

}  // namespace lamina::python
