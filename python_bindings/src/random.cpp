// lm.random and dropout.
#include "graph/frontend/random.h"

#include <nanobind/stl/optional.h>

#include "python_bindings/src/convert.h"

namespace lamina::python {

void bind_random(nb::module_& m) {
  nb::module_ r = m.def_submodule(
      "random",
      "Random draws. One generator serves all: the same seed gives the same numbers, eager and traced, on any number of threads.");
  r.def(
      "set_seed", [](int64_t seed) { random::set_seed(seed); }, nb::arg("seed"),
      "Starts all draws and initial weights anew from this seed.");
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
      [](int64_t low, std::optional<int64_t> high, nb::handle shape, nb::handle dtype) {
        return to_python(random::integers(to_shape(shape), high ? low : 0, high.value_or(low),
                                          to_optional_dtype(dtype).value_or(DType::i32), CallSite()));
      },
      nb::arg("low"), nb::arg("high") = nb::none(), nb::arg("shape") = nb::make_tuple(), nb::arg("dtype") = nb::none(),
      "Whole numbers from low to high - 1, each equally likely; with one number from 0 to it minus 1. int32 unless a dtype is given.");
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
        return to_python(number ? random::permutation(nb::cast<int64_t>(x), CallSite()) : random::shuffle(to_operand(x), 0));
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
        for (size_t i = 0; i < s.size(); ++i) s[i] = nb::cast<int64_t>(nb::handle(PyTuple_GET_ITEM(items.ptr(), Py_ssize_t(i))));
        random::set_state(s);
      },
      nb::arg("state"), "Goes on where get_state() was called.");
  m.def(
      "dropout", [](nb::handle x, double rate) { return to_python(dropout(to_operand(x), rate)); }, nb::arg("x"), nb::arg("rate"),
      "Each element is 0 with probability rate, else x / (1 - rate); 0 <= rate < 1.");
}

}  // namespace lamina::python
