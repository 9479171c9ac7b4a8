#include "python_bindings/src/operators.h"

#include <algorithm>
#include <cmath>

#include <nanobind/stl/string.h>

#include "python_bindings/src/training_flag.h"

namespace lamina::python {

Tensor as_number(Tensor t) {
  const DType d = t.dtype();
  return t.rank() == 0 && (d == DType::i32 || d == DType::i64 || d == DType::f32) ? t.with(Strength::number) : t;
}

PyObject* wrap_like(Tensor tensor, std::initializer_list<const Operand*> operands) {
  Strength least = Strength::number;
  for (const Operand* o : operands)
    if (o->is_tensor()) least = std::min(least, o->tensor().strength());
  if (is_complex(tensor.dtype())) least = Strength::tensor;
  return wrap_argument(least == Strength::number ? as_number(std::move(tensor)) : tensor.with(least));
}

Tensor matrix_product(const Operand& a, const Operand& b) { return matmul(a, b); }

PyObject* power_slot(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus == Py_None) return binary_slot<pow>(a, b);
  return guarded([&]() -> PyObject* {
    throw_type_error("pow: the power of a tensor is not taken modulo a third number",
                     "a ** b is computed in the tensor's dtype, which may not hold it", "write (a ** b) % c where a ** b fits the dtype");
  });
}

PyObject* divmod_slot(PyObject* a, PyObject* b) {
  const nb::object quotient = nb::steal(binary_slot<floor_divide>(a, b));
  if (!quotient.is_valid() || quotient.is(nb::handle(Py_NotImplemented))) return nb::object(quotient).release().ptr();
  const nb::object rest = nb::steal(binary_slot<mod>(a, b));
  return rest.is_valid() ? PyTuple_Pack(2, quotient.ptr(), rest.ptr()) : nullptr;
}

PyObject* identity_slot(PyObject* a) {
  return guarded([&] { return wrap_argument(to_operand(a).resolve()); });
}

namespace {

Operand here(const Tensor& t) { return Operand(t, CallSite()); }

// Whole numbers to the nearest multiple of 10^zeros, the even one of two.
Tensor to_multiples(const Tensor& t, int zeros) {
  const int bits = 8 * int(size_of(t.dtype())) - (is_signed(t.dtype()) ? 1 : 0);
  int64_t unit = 1;
  for (int i = 0; i < zeros && unit; ++i) unit = i < 18 ? unit * 10 : 0;
  if (unit == 0 || (bits < 63 && unit >> bits)) return mul(here(t), 0);  // more than twice the dtype's largest number
  const Tensor rest = mod(here(t), unit), left = sub(Operand(unit, CallSite()), here(rest));
  const Tensor odd = equal(here(mod(here(floor_divide(here(t), unit)), 2)), 1);
  const Tensor up = logical_or(here(greater(here(rest), here(left))), here(logical_and(here(equal(here(rest), here(left))), here(odd))));
  return add(here(sub(here(t), here(rest))), here(mul(here(astype(here(up), t.dtype())), unit)));
}

}  // namespace

nb::object rounded(const Operand& x, nb::handle digits) {
  if (digits.is_none()) return nb::steal(wrap_like(round(x), {&x}));
  const int places = nb::cast<int>(digits);
  const Tensor t = x.resolve();
  if (!has_gradients(t.dtype())) return to_python(places >= 0 || t.dtype() == DType::boolean ? t : to_multiples(t, -places));
  const Tensor wide = is_half(t.dtype()) ? astype(here(t), DType::f32) : t;  // a scaled half would overflow
  const Operand scale(std::pow(10.0, std::abs(places)), CallSite());
  const Tensor made =
      places < 0 ? mul(here(round(here(div(here(wide), scale)))), scale) : div(here(round(here(mul(here(wide), scale)))), scale);
  return to_python(is_half(t.dtype()) ? astype(here(made), t.dtype()) : made);
}

PyObject* compare_slot(PyObject* a, PyObject* b, int operation) {
  switch (operation) {
    case Py_LT: return binary_slot<less>(a, b);
    case Py_LE: return binary_slot<less_equal>(a, b);
    case Py_EQ: return binary_slot<equal>(a, b);
    case Py_NE: return binary_slot<not_equal>(a, b);
    case Py_GT: return binary_slot<greater>(a, b);
    default: return binary_slot<greater_equal>(a, b);
  }
}

int truth(const Tensor& t) noexcept {
  return guarded<int>(
      [&] {
        if (t.is_symbolic() && autograph_flag) {
          const nb::object why = nb::module_::import_("lamina.autograph.conversion").attr("why_not_here")();
          if (!why.is_none())
            throw Error(ErrorKind::conversion, {.what = "a tensor of a graph is a condition in a function that was not converted",
                                                .where = text(CallSite().line()),
                                                .why = nb::cast<std::string>(why),
                                                .fix = "write lm.cond, lm.while_loop or lm.where, or put the function into a file"});
        }
        t.concrete("bool()");
        if (is_complex(t.dtype())) return int(PyObject_IsTrue(item_of(t).ptr()));
        return int(is_floating(t.dtype()) ? t.item<double>() != 0 : t.item<int64_t>() != 0);
      },
      -1);
}

PyObject* to_int(const Tensor& t) noexcept {
  return guarded([&] {
    t.concrete("int()");
    if (t.dtype() == DType::u64) return PyLong_FromUnsignedLongLong(t.item<uint64_t>());
    if (!is_floating(t.dtype())) return PyLong_FromLongLong(t.item<int64_t>());
    return PyLong_FromDouble(t.item<double>());
  });
}

PyObject* to_float(const Tensor& t) noexcept {
  return guarded([&] {
    t.concrete("float()");
    return PyFloat_FromDouble(t.item<double>());
  });
}

PyObject* to_index(const Tensor& t) noexcept {
  return guarded([&] {
    if (t.is_symbolic()) try {
        t.concrete("an index made");
      } catch (const Error& e) {
        Error::Parts parts = e.parts;
        if (parts.what.ends_with("does not exist yet"))
          parts.fix =
              "a slice of fixed length at a computed place is lm.gather(x, begin + lm.arange(length)), and x.at[begin + "
              "lm.arange(length)].set(values) replaces it; one element is x[i]";
        throw Error(e.kind, std::move(parts));
      }
    if (!is_integer(t.dtype()))
      throw_type_error(cat(t.type(), " cannot be an index"), "an index is an integer", "convert it: lm.astype(x, lm.int64)");
    if (t.dtype() == DType::u64) return PyLong_FromUnsignedLongLong(t.item<uint64_t>());
    return PyLong_FromLongLong(t.item<int64_t>());
  });
}

int contains(PyObject* self, PyObject* value) noexcept {
  return guarded<int>(
      [&] {
        const Tensor t = to_operand(self).resolve();
        nb::object number;  // what equals the value in the tensor's dtype: 2 for 2.0 among integers, 1 for True among numbers
        if (PyFloat_Check(value) && !has_gradients(t.dtype())) {
          const double x = PyFloat_AS_DOUBLE(value);
          if (!std::isfinite(x) || std::floor(x) != x) return 0;
          number = nb::steal(PyLong_FromDouble(x));
        } else if (PyBool_Check(value)) {
          number = nb::steal(PyLong_FromLong(value == Py_True));
        }
        if (t.dtype() == DType::boolean && (number.is_valid() || PyLong_Check(value))) {
          const nb::object truth_of = number.is_valid() ? number : nb::borrow(value);
          if (!truth_of.equal(nb::int_(0)) && !truth_of.equal(nb::int_(1))) return 0;
          number = nb::bool_(truth_of.equal(nb::int_(1)));
        }
        Tensor same;
        try {
          std::optional<Operand> other;
          if (!to_operand(number.is_valid() ? number.ptr() : value, other)) return 0;
          same = equal(here(t), *other);
        } catch (const Error&) {
          if (PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value)) return 0;  // the dtype does not hold it
          throw;
        }
        const int is = truth(any(here(same)));
        if (is < 0) throw_python_error();
        return is;
      },
      -1);
}

int refuse_assignment(PyObject* self, PyObject*, PyObject* value) noexcept {
  return guarded<int>(
      [&]() -> int {
        const bool variable = is_variable(self);
        throw_type_error(
            cat("elements of a ", variable ? "Variable" : "tensor", " cannot be ", value ? "assigned" : "deleted", " in place"),
            variable ? "a Variable is assigned as a whole" : "a tensor never changes",
            !value     ? "select those to keep: x[...], or lm.where"
            : variable ? "write v.assign(v.at[...].set(value)), or .add, .mul, .min, .max"
                       : "write x = x.at[...].set(value), or .add, .mul, .min, .max");
      },
      -1);
}

}  // namespace lamina::python
