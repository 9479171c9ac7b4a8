// lm.random and dropout.
#include "graph/frontend/random.h"
#include "python_bindings/src/convert.h"

namespace lamina::python {

void bind_random(nb::module_& m) {
  nb::module_ r = m.def_submodule("random", "Random draws. One generator serves all: the same seed gives the same numbers, eager and traced, on any number of threads.");
  r.def("set_seed", [](int64_t seed) { random::set_seed(seed); }, nb::arg("seed"), "Starts all draws and initial weights anew from this seed.");
  r.def("uniform", [](nb::handle shape, double low, double high, nb::handle dtype) {
    return to_python(random::uniform(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), low, high, CallSite()));
  }, nb::arg("shape") = nb::make_tuple(), nb::arg("low") = 0.0, nb::arg("high") = 1.0, nb::arg("dtype") = nb::none(), "Numbers evenly spread over [low, high).");
  r.def("normal", [](nb::handle shape, double mean, double deviation, nb::handle dtype) {
    return to_python(random::normal(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), mean, deviation, CallSite()));
  }, nb::arg("shape") = nb::make_tuple(), nb::arg("mean") = 0.0, nb::arg("deviation") = 1.0, nb::arg("dtype") = nb::none(), "Normally distributed numbers.");
  r.def("next_seed", [] { return int64_t(random::next_host_seed() >> 1); }, "A seed that follows from set_seed's and how many were asked for since.");
  r.def("get_state", [] {
    const random::State s = random::state();
    return nb::make_tuple(s[0], s[1], s[2], s[3]);
  }, "What set_seed sets, as four integers: for set_state.");
  r.def("set_state", [](nb::handle state) {
    random::State s;
    nb::object items = nb::steal(PySequence_Tuple(state.ptr()));
    if (!items.is_valid()) throw_python_error();
    if (nb::len(items) != s.size()) throw Error(ErrorKind::invalid_argument, {.what = cat("set_state: ", nb::len(items), " numbers"), .where = "", .why = "a state has four", .fix = "pass what get_state() gave"});
    for (size_t i = 0; i < s.size(); ++i) s[i] = nb::cast<int64_t>(nb::handle(PyTuple_GET_ITEM(items.ptr(), Py_ssize_t(i))));
    random::set_state(s);
  }, nb::arg("state"), "Goes on where get_state() was called.");
  m.def("dropout", [](nb::handle x, double rate) { return to_python(dropout(to_operand(x), rate)); }, nb::arg("x"), nb::arg("rate"),
        "Each element is 0 with probability rate, else x / (1 - rate); 0 <= rate < 1.");
}

}  // namespace lamina::python
