// Functions of lm for ops with further parameters: parametric activations, bounds, reductions built from several ops.
#include <limits>

#include "graph/functions/op_functions.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {
namespace {

using Spread = Tensor (*)(const Operand&, const AxesOrAll&, bool, double);
template <Spread op>
TensorObject call_spread(nb::handle x, nb::handle axis, bool keepdims, NumberArgument given) {
  const double ddof = to_number(given);
  const Operand operand = to_operand(x);
  const AxesOrAll axes = to_axes_or_all(axis);
  return unlocked({&operand}, [&] { return op(operand, axes, keepdims, ddof); });
}

TensorObject call_clip(nb::handle x, nb::handle low, nb::handle high) {
  const Operand operand = to_operand(x);
  if (low.is_none() && high.is_none()) return to_python(operand.resolve());
  if (low.is_none()) return to_python(minimum(operand, to_operand(high)));
  if (high.is_none()) return to_python(maximum(operand, to_operand(low)));
  const Operand least = to_operand(low), most = to_operand(high);
  return unlocked({&operand}, [&] { return clip(operand, least, most); });
}

double to_order(nb::handle ord) {
  if (PyUnicode_Check(ord.ptr())) {
    const std::string name = nb::cast<std::string>(nb::str(ord));
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "-inf") return -std::numeric_limits<double>::infinity();
    throw Error(ErrorKind::invalid_argument, {.what = cat("norm: '", name, "' is no order"),
                                              .where = "argument 'ord'",
                                              .why = "an order is a number",
                                              .fix = "pass 1, 2 or float('inf')"});
  }
  return to_number(ord);
}

void bind_activations(nb::module_& m) {
  m.def(
      "gelu",
      [](nb::handle x, bool approximate) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return gelu(operand, approximate); });
      },
      nb::arg("x"), nb::arg("approximate") = false, doc_of("gelu"));
  m.def(
      "elu",
      [](nb::handle x, nb::handle alpha) {
        const Operand operand = to_operand(x), number = to_operand(alpha);
        return unlocked({&operand}, [&] { return elu(operand, number); });
      },
      nb::arg("x"), nb::arg("alpha") = 1.0, doc_of("elu"));
  m.def(
      "leaky_relu",
      [](nb::handle x, nb::handle slope) {
        const Operand operand = to_operand(x), number = to_operand(slope);
        return unlocked({&operand}, [&] { return leaky_relu(operand, number); });
      },
      nb::arg("x"), nb::arg("slope") = 0.01, doc_of("leaky_relu"));
  m.def(
      "selu", [](nb::handle x) { return to_python(selu(to_operand(x))); }, nb::arg("x"),
      "1.0507 elu(x, 1.6733), which keeps mean 0 and variance 1 (Klambauer, Unterthiner, Mayr and Hochreiter 2017)");
  m.def("hard_sigmoid", [](nb::handle x) { return to_python(hard_sigmoid(to_operand(x))); }, nb::arg("x"), "clip(x / 6 + 1/2, 0, 1)");
}

}  // namespace

void bind_math(nb::module_& module) {
  Functions m(module);
  bind_activations(m);
  m.def("clip", call_clip, nb::arg("x"), nb::arg("low") = nb::none(), nb::arg("high") = nb::none(), doc_of("clip"));
  m.def("bitwise_not", [](nb::handle x) { return to_python(bitwise_not(to_operand(x))); }, nb::arg("x"), doc_of("bitwise_not"));
  m.def(
      "remainder", [](nb::handle a, nb::handle b) { return to_python(std::apply(mod, to_operands(a, b))); }, nb::arg("a"), nb::arg("b"),
      "The same as mod: the rest of a / b with the sign of b");
#define BIND(name, text)                                                                                            \
  m.def(#name, &call_reduce<lamina::name>, nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, \
        text " over an axis or several (negative: from the back), over all without; keepdims keeps them with length 1")
  BIND(all, "Whether all elements are true, or not 0,");
  BIND(any, "Whether one element is true, or not 0,");
  BIND(count_nonzero, "How many elements are true, or not 0 (int64),");
  BIND(logsumexp, "log(sum(exp(x))), without overflow,");
#undef BIND
#define BIND(name, text)                                                                                                                   \
  m.def(#name, &call_spread<lamina::name>, nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, nb::arg("ddof") = 0.0, \
        text " over an axis or several, over all without. The sum of squared sizes is divided by the number of elements less ddof.")
  BIND(var, "The variance");
  BIND(std, "The standard deviation");
#undef BIND
  m.def(
      "norm",
      [](nb::handle x, nb::handle ord, nb::handle axis, bool keepdims) {
        const Operand operand = to_operand(x);
        const AxesOrAll axes = to_axes_or_all(axis);
        const double order = to_order(ord);
        return unlocked({&operand}, [&] { return norm(operand, order, axes, keepdims); });
      },
      nb::arg("x"), nb::arg("ord") = 2, nb::arg("axis") = nb::none(), nb::arg("keepdims") = false,
      "The norm of the axes as one vector, of all without: (sum |x|^ord)^(1/ord). inf: the largest |x|, -inf: the smallest, 0: how many "
      "are not 0.\n"
      "The gradient of a norm that is 0 is 0.");
  m.def(
      "cumsum",
      [](nb::handle x, int axis, bool reverse, bool exclusive) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return cumsum(operand, axis, reverse, exclusive); });
      },
      nb::arg("x"), nb::arg("axis") = -1, nb::arg("reverse") = false, nb::arg("exclusive") = false, doc_of("cumsum"));
}

}  // namespace lamina::python
