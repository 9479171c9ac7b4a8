// Reductions as methods of Tensor and Variable. np.mean(t) and the like call them, with NumPy's dtype= and out=.
#include "graph/functions/op_functions.h"
#include "python_bindings/src/methods.h"

namespace lamina::python {
namespace {

// x in the dtype that the caller asks for. NumPy always passes out, which is None unless its caller gave an array.
Operand given(nb::handle x, nb::handle dtype, nb::handle out) {
  if (!out.is_none())
    throw Error(ErrorKind::invalid_argument, {.what = "out: a tensor cannot be written into",
                                              .where = text(CallSite().line()),
                                              .why = "tensors are immutable, and an array of NumPy holds no tensor's result",
                                              .fix = "leave out= away and use the result"});
  const Operand operand = to_operand(x);
  return dtype.is_none() ? operand : Operand(astype(operand, to_dtype(dtype)), CallSite());
}
int axis_or_flat(Operand& x, nb::handle axis) {
  if (!axis.is_none()) return int(to_whole(axis));
  x = Operand(flatten(x), CallSite());
  return 0;
}

template <class F>
TensorObject of_array(const Operand& x, F&& f) {
  Tensor result;
  {
    Unlock unlock({&x});
    result = f();
  }
  return nb::steal<TensorObject>(wrap_like(std::move(result), {&x}));
}

using Reduce = Tensor (*)(const Operand&, const AxesOrAll&, bool);
template <Reduce op>
TensorObject reduce(nb::handle x, nb::handle axis, bool keepdims, nb::handle dtype, nb::handle out) {
  const Operand operand = given(x, dtype, out);
  const AxesOrAll axes = to_axes_or_all(axis);
  return of_array(operand, [&] { return op(operand, axes, keepdims); });
}
template <Reduce op>
TensorObject choose(nb::handle x, nb::handle axis, bool keepdims, nb::handle out) {
  return reduce<op>(x, axis, keepdims, nb::none(), out);
}
using Spread = Tensor (*)(const Operand&, const AxesOrAll&, bool, double);
template <Spread op>
TensorObject spread(nb::handle x, nb::handle axis, bool keepdims, NumberArgument less, nb::handle dtype, nb::handle out) {
  const double ddof = to_number(less);
  const Operand operand = given(x, dtype, out);
  const AxesOrAll axes = to_axes_or_all(axis);
  return of_array(operand, [&] { return op(operand, axes, keepdims, ddof); });
}
using Place = Tensor (*)(const Operand&, int, bool);
template <Place op>
TensorObject place(nb::handle x, nb::handle axis, bool keepdims, nb::handle out) {
  Operand operand = given(x, nb::none(), out);
  const Tensor t = operand.resolve();
  const int along = axis_or_flat(operand, axis);
  const Tensor found = op(operand, along, keepdims && !axis.is_none());
  if (!keepdims || !axis.is_none()) return to_python(found);
  return to_python(reshape_to(Operand(found, CallSite()), Shape(size_t(t.rank()), Dim(1))));
}

}  // namespace

void bind_reductions(nb::module_& m) {
  const auto axis = nb::arg("axis") = nb::none();
  const auto dtype = nb::arg("dtype") = nb::none();
  const auto out = nb::arg("out") = nb::none();
  const auto last = nb::arg("axis").none() = -1;
  const auto keepdims = nb::arg("keepdims") = false;
  const auto ddof = nb::arg("ddof") = 0.0;
  add_method(m, "sum", &reduce<lamina::sum>, axis, keepdims, nb::kw_only(), dtype, out,
             "As lm.sum, called like the method of NumPy\'s arrays.");
  add_method(m, "mean", &reduce<lamina::mean>, axis, keepdims, nb::kw_only(), dtype, out,
             "As lm.mean, called like the method of NumPy\'s arrays.");
  add_method(m, "prod", &reduce<lamina::prod>, axis, keepdims, nb::kw_only(), dtype, out,
             "As lm.prod, called like the method of NumPy\'s arrays.");
  add_method(m, "max", &choose<lamina::max>, axis, keepdims, nb::kw_only(), out, "As lm.max, called like the method of NumPy\'s arrays.");
  add_method(m, "min", &choose<lamina::min>, axis, keepdims, nb::kw_only(), out, "As lm.min, called like the method of NumPy\'s arrays.");
  add_method(m, "all", &choose<lamina::all>, axis, keepdims, nb::kw_only(), out, "As lm.all, called like the method of NumPy\'s arrays.");
  add_method(m, "any", &choose<lamina::any>, axis, keepdims, nb::kw_only(), out, "As lm.any, called like the method of NumPy\'s arrays.");
  add_method(m, "var", &spread<lamina::var>, axis, keepdims, ddof, nb::kw_only(), dtype, out,
             "As lm.var, called like the method of NumPy\'s arrays.");
  add_method(m, "std", &spread<lamina::std>, axis, keepdims, ddof, nb::kw_only(), dtype, out,
             "As lm.std, called like the method of NumPy\'s arrays.");
  add_method(m, "argmax", &place<lamina::argmax>, last, keepdims, nb::kw_only(), out,
             "As lm.argmax, called like the method of NumPy\'s arrays.");
  add_method(m, "argmin", &place<lamina::argmin>, last, keepdims, nb::kw_only(), out,
             "As lm.argmin, called like the method of NumPy\'s arrays.");
  add_method(
      m, "cumsum",
      [](nb::handle x, nb::handle axis, nb::handle dtype, nb::handle out) {
        Operand operand = given(x, dtype, out);
        const int along = axis_or_flat(operand, axis);
        return of_array(operand, [&] { return cumsum(operand, along); });
      },
      last, nb::kw_only(), dtype, out, "As lm.cumsum, called like the method of NumPy\'s arrays.");
}

}  // namespace lamina::python
