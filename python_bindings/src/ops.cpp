// The ops as functions of lm: the elementwise ones from the op table, the others by hand.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/functions/indexing.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/shape_functions.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {
namespace {

template <Tensor (*op)(const Operand&)>
TensorObject call_unary(nb::handle x) {
  const Operand operand = to_operand(x);
  return unlocked({&operand}, [&] { return op(operand); });
}

template <Tensor (*op)(const Operand&, const Operand&)>
TensorObject call_binary(nb::handle a, nb::handle b) {
  const auto operands = to_operands(a, b);
  return unlocked({&operands.first, &operands.second}, [&] { return op(operands.first, operands.second); });
}

std::vector<Tensor> to_tensors(nb::handle values, const char* op) {
  if (!PyList_Check(values.ptr()) && !PyTuple_Check(values.ptr())) {
    throw_type_error(cat(op, ": ", a_type(values.ptr()), " is not a list of tensors"), "", "pass a list or tuple of tensors");
  }
  return parts_of(values, op);
}

TensorObject make_range(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype) {
  nb::object first = nb::borrow(start), last = nb::borrow(stop);
  if (stop.is_none()) last = first, first = nb::int_(0);
  auto whole = [](nb::handle h) { return PyIndex_Check(h.ptr()) && !PyFloat_Check(h.ptr()); };
  const bool integers = whole(first) && whole(last) && whole(step);
  const DType d = dtype_or(dtype, integers ? DType::i32 : DType::f32);
  auto number = [](nb::handle h) { return nb::cast<double>(nb::float_(h)); };
  auto integer = [](nb::handle h) { return nb::cast<int64_t>(nb::int_(h)); };
  if (integers && !is_floating(d)) return to_python(arange(integer(first), integer(last), integer(step), d, CallSite()));
  const Tensor numbers = arange(number(first), number(last), number(step), d, CallSite());
  if (!is_floating(d) || !(is_recorded(first) || is_recorded(step))) return to_python(numbers);
  const Operand places(arange(0, double(numbers.size()), 1, d), CallSite());
  const Operand way(mul(places, Operand(astype(to_operand(step), d), CallSite())), CallSite());
  return to_python(add(Operand(astype(to_operand(first), d), CallSite()), way));
}

// The part of docstrings that follows from the table's columns.
#define LAMINA_DOMAIN_floating "Integers and bools are computed as float32."
#define LAMINA_DOMAIN_numeric "For integers and floating point; bools raise TypeMismatch."
#define LAMINA_DOMAIN_any "For every dtype."
#define LAMINA_DOMAIN_integer "For integers; other dtypes raise TypeMismatch."
#define LAMINA_DOMAIN_bits "For integers and bools; other dtypes raise TypeMismatch."
#define LAMINA_DOMAIN_boolean "For bools; other dtypes raise TypeMismatch."
#define LAMINA_SHAPES_same(names) "the result has the shape and dtype of " names ". "
#define LAMINA_SHAPES_boolean(names) "the result is bool, of the shape of " names ". "

void bind_elementwise(nb::module_& module) {
  Functions m(module);
#define LAMINA_BIND_1(name, domain, result, doc) \
  m.def(#name, &call_unary<lamina::name>, nb::arg("x"), doc "\n\nElementwise: " LAMINA_SHAPES_##result("x") LAMINA_DOMAIN_##domain);
#define LAMINA_BIND_2(name, domain, result, doc)                                                                \
  m.def(#name, &call_binary<lamina::name>, nb::arg("a"), nb::arg("b"),                                          \
        doc "\n\nElementwise: " LAMINA_SHAPES_##result("both together, which broadcast") LAMINA_DOMAIN_##domain \
        " Tensors of "                                                                                          \
        "different dtypes raise TypeMismatch, shapes that do not broadcast InvalidArgument.");
#define ELEMENTWISE(name, operands, domain, result, cost, access, gradient, doc) \
  LAMINA_IF_FUNCTION(access, LAMINA_BIND_##operands(name, domain, result, doc))
#include "kernels/shared/elementwise_ops.inc"
  m.def("pow", &call_binary<lamina::pow>, nb::arg("a"), nb::arg("b"), doc_of("pow"));
  m.def("stop_gradient", &call_unary<lamina::stop_gradient>, nb::arg("x"), doc_of("stop_gradient"));
  m.def("as_real", &call_unary<lamina::as_real>, nb::arg("x"), doc_of("as_real"));
  m.def("as_complex", &call_unary<lamina::as_complex>, nb::arg("x"), doc_of("as_complex"));
  m.def("conj", &call_unary<lamina::conj>, nb::arg("x"), "x with the opposite imaginary part; x itself where it is not complex.");
  m.def(
      "where",
      [](nb::handle condition, nb::handle a, nb::handle b) -> nb::object {
        if (a.is_none() && b.is_none()) {
          nb::list places;
          for (Tensor& t : nonzero(to_operand(condition))) places.append(to_python(std::move(t)));
          return nb::tuple(places);
        }
        const auto [yes, no] = to_operands(a, b);
        return to_python(where(to_operand(condition), yes, no));
      },
      nb::arg("condition"), nb::arg("a") = nb::none(), nb::arg("b") = nb::none(), doc_of("where"));
  m.def(
      "astype", [](nb::handle x, nb::handle dtype) { return to_python(astype(to_operand(x), to_dtype(dtype))); }, nb::arg("x"),
      nb::arg("dtype"), doc_of("astype"));
}

void bind_products_and_reductions(nb::module_& module) {
  Functions m(module);
  m.def(
      "matmul",
      [](nb::handle a, nb::handle b, bool transpose_a, bool transpose_b) {
        const auto operands = to_operands(a, b);
        return unlocked({&operands.first, &operands.second},
                        [&] { return matmul(operands.first, operands.second, transpose_a, transpose_b); });
      },
      nb::arg("a"), nb::arg("b"), nb::arg("transpose_a") = false, nb::arg("transpose_b") = false, doc_of("matmul"));
#define BIND(name) \
  m.def(#name, &call_reduce<lamina::name>, nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, doc_of(#name))
  BIND(sum);
  BIND(mean);
  BIND(max);
  BIND(min);
  BIND(prod);
#undef BIND
  m.def(
      "argmax", [](nb::handle x, int axis, bool keepdims) { return to_python(argmax(to_operand(x), axis, keepdims)); }, nb::arg("x"),
      nb::arg("axis") = -1, nb::arg("keepdims") = false, doc_of("argmax"));
  m.def(
      "argmin", [](nb::handle x, int axis, bool keepdims) { return to_python(argmin(to_operand(x), axis, keepdims)); }, nb::arg("x"),
      nb::arg("axis") = -1, nb::arg("keepdims") = false, "The int64 index of the first smallest element along an axis");
  m.def(
      "softmax", [](nb::handle x, int axis) { return to_python(softmax(to_operand(x), axis)); }, nb::arg("x"), nb::arg("axis") = -1,
      doc_of("softmax"));
  m.def(
      "log_softmax", [](nb::handle x, int axis) { return to_python(log_softmax(to_operand(x), axis)); }, nb::arg("x"), nb::arg("axis") = -1,
      doc_of("log_softmax"));
}

void bind_shapes(nb::module_& module) {
  Functions m(module);
  m.def(
      "reshape", [](nb::handle x, nb::handle shape) { return to_python(reshape(to_operand(x), to_axes(shape))); }, nb::arg("x"),
      nb::arg("shape"), doc_of("reshape"));
  m.def(
      "flatten", [](nb::handle x, int first_axis) { return to_python(flatten(to_operand(x), first_axis)); }, nb::arg("x"),
      nb::arg("first_axis") = 0, "The axes from first_axis on as one");
  m.def(
      "broadcast_to", [](nb::handle x, nb::handle shape) { return to_python(broadcast_to(to_operand(x), to_shape(shape))); }, nb::arg("x"),
      nb::arg("shape"), doc_of("broadcast_to"));
  m.def(
      "transpose", [](nb::handle x, nb::handle axes) { return to_python(transpose(to_operand(x), to_axes_or_all(axes))); }, nb::arg("x"),
      nb::arg("axes") = nb::none(), doc_of("transpose"));
  m.def(
      "expand_dims", [](nb::handle x, nb::handle axis) { return to_python(expand_dims(to_operand(x), Axes(to_axes(axis)))); }, nb::arg("x"),
      nb::arg("axis"), "x with a new axis of length 1, or several; they have these places in the result");
  m.def(
      "squeeze", [](nb::handle x, nb::handle axis) { return to_python(squeeze(to_operand(x), to_axes_or_all(axis))); }, nb::arg("x"),
      nb::arg("axis") = nb::none(), "x without these axes of length 1; without all of them when none is given");
  m.def(
      "concat", [](nb::handle parts, int axis) { return to_python(concat(to_tensors(parts, "concat"), axis, CallSite())); },
      nb::arg("parts"), nb::arg("axis") = 0, doc_of("concat"));
  m.def(
      "stack", [](nb::handle parts, int axis) { return to_python(stack(to_tensors(parts, "stack"), axis, CallSite())); }, nb::arg("parts"),
      nb::arg("axis") = 0, "The parts, all of one shape, along a new axis");
  m.def(
      "gather",
      [](nb::handle x, nb::handle indices, int axis, int batch_axes) {
        return to_python(gather(to_operand(x), to_operand(indices), axis, batch_axes));
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("axis") = 0, nb::arg("batch_axes") = 0, doc_of("gather"));
  m.def(
      "one_hot",
      [](nb::handle labels, int64_t classes, nb::handle dtype) {
        return to_python(one_hot(to_operand(labels), classes, dtype_or(dtype, DType::f32)));
      },
      nb::arg("labels"), nb::arg("classes"), nb::arg("dtype") = nb::none(), doc_of("one_hot"));
}

void bind_factories(nb::module_& module) {
  Functions m(module);
  m.def(
      "constant", [](nb::handle value, nb::handle dtype) { return to_python(to_tensor(value, to_optional_dtype(dtype))); },
      nb::arg("value").none(), nb::arg("dtype") = nb::none(),
      "A tensor with a copy of a number, nested lists of numbers or a NumPy array. Python integers become int32, floats float32, lists "
      "with\n"
      "both float32; arrays keep their dtype. Raises TypeMismatch and InvalidArgument for what is no rectangle of numbers.");
  m.def(
      "zeros", [](nb::handle shape, nb::handle dtype) { return to_python(zeros(to_shape(shape), dtype_or(dtype, DType::f32))); },
      nb::arg("shape"), nb::arg("dtype") = nb::none(), "Zeros; float32 unless a dtype is given");
  m.def(
      "ones", [](nb::handle shape, nb::handle dtype) { return to_python(ones(to_shape(shape), dtype_or(dtype, DType::f32))); },
      nb::arg("shape"), nb::arg("dtype") = nb::none(), "Ones; float32 unless a dtype is given");
  m.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype) {
        const Tensor one = to_tensor(value, to_optional_dtype(dtype));
        return to_python(broadcast_to(Operand(one, CallSite()), to_shape(shape)));
      },
      nb::arg("shape"), nb::arg("value"), nb::arg("dtype") = nb::none(), "One number everywhere");
  m.def(
      "zeros_like",
      [](nb::handle x, nb::handle dtype) {
        return to_python(dtype.is_none() ? zeros_like(to_operand(x)) : zeros_like(to_operand(x), to_dtype(dtype)));
      },
      nb::arg("x"), nb::arg("dtype") = nb::none(), "Zeros of x's shape, and of its dtype unless one is given");
  m.def(
      "ones_like",
      [](nb::handle x, nb::handle dtype) {
        return to_python(dtype.is_none() ? ones_like(to_operand(x)) : ones_like(to_operand(x), to_dtype(dtype)));
      },
      nb::arg("x"), nb::arg("dtype") = nb::none(), "Ones of x's shape, and of its dtype unless one is given");
  for (const char* name : {"arange", "range"}) {
    m.def(name, make_range, nb::arg("start"), nb::arg("stop") = nb::none(), nb::arg("step") = 1, nb::arg("dtype") = nb::none(),
          "start, start + step, ... before stop; with one argument 0, 1, ... before it. int32 for integers, otherwise float32.");
  }
}

}  // namespace

void bind_ops(nb::module_& m) {
  bind_elementwise(m);
  bind_products_and_reductions(m);
  bind_shapes(m);
  bind_factories(m);
}

}  // namespace lamina::python
