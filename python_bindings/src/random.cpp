// lm.random and dropout.
#include "graph/functions/random.h"

#include <nanobind/stl/optional.h>

#include "python_bindings/src/methods.h"

namespace lamina::python {
namespace {

// Any 64-bit integer, signed or not: only the bits count.
int64_t to_seed(nb::handle seed) {
  nb::object n = nb::steal(PyIndex_Check(seed.ptr()) && !PyBool_Check(seed.ptr()) ? PyNumber_Index(seed.ptr()) : nullptr);
  if (!n.is_valid()) {
    PyErr_Clear();
    throw_type_error(cat("set_seed: ", a_type(seed.ptr()), " is no seed"), "a seed is an integer", "pass an int");
  }
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(n.ptr(), &overflow);
  if (overflow == 0) return small;
  const unsigned long long bits = overflow > 0 ? PyLong_AsUnsignedLongLong(n.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    throw Error(ErrorKind::invalid_argument, {.what = cat("set_seed: the seed ", nb::str(n).c_str(), " does not fit 64 bits"),
                                              .where = text(CallSite().line()),
                                              .why = "a seed is an integer from -2**63 to 2**64 - 1",
                                              .fix = "pass seed % 2**64"});
  }
  return int64_t(bits);
}

}  // namespace

void bind_random(nb::module_& m) {
  nb::module_ r = m.def_submodule(
      "random",
      "Random draws. One generator serves all: the same seed gives the same numbers, eager and traced, on any number of threads.");
  r.def(
      "set_seed", [](nb::handle seed) { random::set_seed(to_seed(seed)); }, nb::arg("seed"),
      "Starts all draws and initial weights anew from this seed, an integer from -2**63 to 2**64 - 1.");
  r.def(
      "uniform",
      [](nb::handle shape, double low, double high, nb::handle dtype) {
        return to_python(random::uniform(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), low, high, CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("low") = 0.0, nb::arg("high") = 1.0, nb::arg("dtype") = nb::none(),
      "Numbers evenly spread over [low, high).");
  r.def(
      "normal",
      [](nb::handle shape, double mean, double deviation, nb::handle dtype) {
        return to_python(random::normal(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), mean, deviation, CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("mean") = 0.0, nb::arg("deviation") = 1.0, nb::arg("dtype") = nb::none(),
      "Normally distributed numbers.");
  r.def(
      "integers",
      [](nb::handle low, nb::handle high, nb::handle shape, nb::handle dtype) {
        const nb::object zero = nb::int_(0);
        const nb::handle first = high.is_none() ? nb::handle(zero) : low, end = high.is_none() ? low : high;
        const DType d = to_optional_dtype(dtype).value_or(DType::i32);
        auto is_value = [](nb::handle h) { return is_tensor(h.ptr()) || is_variable(h.ptr()) || is_array(h.ptr()); };
        if (is_value(first) || is_value(end)) return to_python(random::integers(to_shape(shape), to_operand(first), to_operand(end), d));
        return to_python(random::integers(to_shape(shape), to_whole(first), to_whole(end), d, CallSite()));
      },
      nb::arg("low"), nb::arg("high") = nb::none(), nb::arg("shape") = nb::make_tuple(), nb::arg("dtype") = nb::none(),
      "Whole numbers from low to high - 1, each equally likely; with one number from 0 to it minus 1. int32 unless a dtype is given. "
      "Bounds "
      "may be integer\ntensors, which broadcast to the shape, no more than 2**31 apart; low >= high is then an AssertionFailed when it "
      "runs.");
  r.def(
      "truncated_normal",
      [](nb::handle shape, double mean, double deviation, double low, double high, nb::handle dtype) {
        return to_python(random::truncated_normal(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), mean, deviation, low,
                                                  high, CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("mean") = 0.0, nb::arg("deviation") = 1.0, nb::arg("low") = -2.0, nb::arg("high") = 2.0,
      nb::arg("dtype") = nb::none(), "Normally distributed numbers given that they lie in [low, high].");
  r.def(
      "exponential",
      [](nb::handle shape, double rate, nb::handle dtype) {
        return to_python(random::exponential(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), rate, CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("rate") = 1.0, nb::arg("dtype") = nb::none(),
      "Waiting times with `rate` events per unit: -log(1 - u) / rate.");
  r.def(
      "bernoulli",
      [](nb::handle p, nb::handle shape) {
        return to_python(shape.is_none() ? random::bernoulli(to_operand(p)) : random::bernoulli(to_operand(p), to_shape(shape)));
      },
      nb::arg("p"), nb::arg("shape") = nb::none(),
      "True with probability p; one draw per element of p, or of a shape to which p broadcasts.");
  r.def(
      "categorical",
      [](nb::handle logits, nb::handle shape) { return to_python(random::categorical(to_operand(logits), to_shape(shape))); },
      nb::arg("logits"), nb::arg("shape") = nb::make_tuple(),
      "int64 numbers of categories, drawn with the probabilities softmax(logits) along the last axis; `shape` draws for each. By Gumbel's "
      "trick: the index\n"
      "of the largest of logits - log(-log(u)).");
  r.def(
      "permutation",
      [](nb::handle x) {
        const bool number = PyIndex_Check(x.ptr()) && !is_tensor(x.ptr()) && !is_array(x.ptr());
        return to_python(number ? random::permutation(to_whole(x), CallSite()) : random::shuffle(to_operand(x), 0));
      },
      nb::arg("x"), "0, ..., n - 1 in random order (int64); of a tensor its parts along the first axis.");
  r.def(
      "shuffle", [](nb::handle x, int axis) { return to_python(random::shuffle(to_operand(x), axis)); }, nb::arg("x"), nb::arg("axis") = 0,
      "A tensor like x with its parts along an axis in random order.");
  r.def(
      "next_seed", [] { return int64_t(random::next_host_seed() >> 1); },
      "A seed that follows from set_seed's and how many were asked for since.");
  r.def(
      "get_state",
      [] {
        const random::State s = random::state();
        return nb::make_tuple(s[0], s[1], s[2], s[3]);
      },
      "What set_seed sets, as four integers: for set_state.");
  r.def(
      "set_state",
      [](nb::handle state) {
        random::State s;
        nb::object items = nb::steal(PySequence_Tuple(state.ptr()));
        if (!items.is_valid()) throw_python_error();
        if (nb::len(items) != s.size())
          throw Error(ErrorKind::invalid_argument, {.what = cat("set_state: ", nb::len(items), " numbers"),
                                                    .where = "",
                                                    .why = "a state has four",
                                                    .fix = "pass what get_state() gave"});
        for (size_t i = 0; i < s.size(); ++i) s[i] = to_whole(nb::handle(PyTuple_GET_ITEM(items.ptr(), Py_ssize_t(i))));
        random::set_state(s);
      },
      nb::arg("state"), "Goes on where get_state() was called.");
  m.def(
      "dropout", [](nb::handle x, double rate) { return to_python(dropout(to_operand(x), rate)); }, nb::arg("x"), nb::arg("rate"),
      doc_of("dropout"));
}

}  // namespace lamina::python
