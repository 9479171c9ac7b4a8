// lm.random and dropout.
#include "graph/functions/random.h"
#include "graph/functions/random_key.h"
#include "graph/functions/shape_functions.h"

#include <nanobind/stl/optional.h>

#include "python_bindings/src/methods.h"
#include "python_bindings/src/raises.h"

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

// While it lives, draws come from this key; from the generator for None.
class Keyed {
 public:
  explicit Keyed(nb::handle key) {
    if (!key.is_none()) scope_.emplace(to_operand(key));
  }

 private:
  std::optional<random::KeyScope> scope_;
};

bool is_value(nb::handle h) { return is_tensor(h.ptr()) || is_variable(h.ptr()) || is_array(h.ptr()); }

// A parameter that is computed with as a tensor: a number of NumPy is a number.
bool is_tensor_parameter(nb::handle h) { return is_value(h) && !(is_array(h.ptr()) && is_one_number(h)); }

TensorObject draw_integers(nb::handle low, nb::handle high, nb::handle shape, nb::handle dtype, nb::handle key) {
  const Keyed keyed(key);
  const nb::object zero = nb::int_(0);
  const nb::handle first = high.is_none() ? nb::handle(zero) : low, end = high.is_none() ? low : high;
  const DType d = to_optional_dtype(dtype).value_or(DType::i32);
  if (is_value(first) || is_value(end)) return to_python(random::integers(to_shape(shape), to_operand(first), to_operand(end), d));
  return to_python(random::integers(to_shape(shape), to_whole(first), to_whole(end), d, CallSite()));
}

TensorObject choose(nb::handle x, nb::handle shape, bool replace, nb::handle p, int axis, nb::handle key) {
  const Keyed keyed(key);
  const Tensor probabilities = p.is_none() ? Tensor() : resolve_floating(to_operand(p)).with(Strength::tensor);
  if (is_one_number(x)) return to_python(random::choice(to_whole(x), to_shape(shape), replace, probabilities, CallSite()));
  const Operand from = to_operand(x);
  const Tensor t = from.resolve();
  const int along = normalize_axis("choice", axis, size_t(t.rank()));
  const Tensor places = random::choice(t.shape()[size_t(along)].number(), to_shape(shape), replace, probabilities, CallSite());
  return to_python(gather(from, Operand(places, CallSite()), along));
}

}  // namespace

void bind_random(nb::module_& m) {
  nb::module_ module = m.def_submodule(
      "random",
      "Random draws. One generator serves all: the same seed gives the same numbers, eager and traced, on any number of threads.");
  Functions r(module, "random.");
  r.def(
      "set_seed", [](nb::handle seed) { random::set_seed(to_seed(seed)); }, nb::arg("seed"),
      "Starts all draws and initial weights anew from this seed, an integer from -2**63 to 2**64 - 1.");
  r.def(
      "uniform",
      [](nb::handle shape, NumberArgument low, NumberArgument high, nb::handle dtype, nb::handle key) {
        const Keyed keyed(key);
        if (is_tensor_parameter(low) || is_tensor_parameter(high)) {
          const auto [first, end] = to_operands(low, high);
          return to_python(random::uniform(to_shape(shape), to_optional_dtype(dtype), first, end));
        }
        return to_python(
            random::uniform(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), to_number(low), to_number(high), CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("low") = 0.0, nb::arg("high") = 1.0, nb::arg("dtype") = nb::none(), nb::kw_only(),
      nb::arg("key") = nb::none(),
      "Numbers evenly spread over [low, high), which are numbers or tensors that broadcast to the shape; gradients flow to these.");
  r.def(
      "normal",
      [](nb::handle shape, NumberArgument mean, NumberArgument deviation, nb::handle dtype, nb::handle key) {
        const Keyed keyed(key);
        if (is_tensor_parameter(mean) || is_tensor_parameter(deviation)) {
          const auto [centre, scale] = to_operands(mean, deviation);
          return to_python(random::normal(to_shape(shape), to_optional_dtype(dtype), centre, scale));
        }
        return to_python(random::normal(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), to_number(mean),
                                        to_number(deviation), CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("mean") = 0.0, nb::arg("deviation") = 1.0, nb::arg("dtype") = nb::none(), nb::kw_only(),
      nb::arg("key") = nb::none(),
      "Normally distributed numbers. mean and deviation are numbers or tensors that broadcast to the shape; gradients flow to these.");
  r.def("integers", draw_integers, nb::arg("low"), nb::arg("high") = nb::none(), nb::arg("shape") = nb::make_tuple(),
        nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("key") = nb::none(),
        "Whole numbers from low to high - 1, each equally likely; with one number from 0 to it minus 1. int32 unless a dtype is given. "
        "Bounds "
        "may be integer\ntensors, which broadcast to the shape, no more than 2**31 apart; low >= high is then an AssertionFailed when it "
        "runs.");
  r.def(
      "truncated_normal",
      [](nb::handle shape, NumberArgument mean, NumberArgument deviation, NumberArgument low, NumberArgument high, nb::handle dtype,
         nb::handle key) {
        const Keyed keyed(key);
        return to_python(random::truncated_normal(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), to_number(mean),
                                                  to_number(deviation), to_number(low), to_number(high), CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("mean") = 0.0, nb::arg("deviation") = 1.0, nb::arg("low") = -2.0, nb::arg("high") = 2.0,
      nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("key") = nb::none(),
      "Normally distributed numbers given that they lie in [low, high].");
  r.def(
      "exponential",
      [](nb::handle shape, NumberArgument rate, nb::handle dtype, nb::handle key) {
        const Keyed keyed(key);
        if (is_tensor_parameter(rate)) return to_python(random::exponential(to_shape(shape), to_optional_dtype(dtype), to_operand(rate)));
        return to_python(random::exponential(to_shape(shape), to_optional_dtype(dtype).value_or(DType::f32), to_number(rate), CallSite()));
      },
      nb::arg("shape") = nb::make_tuple(), nb::arg("rate") = 1.0, nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("key") = nb::none(),
      "Waiting times with `rate` events per unit: -log(1 - u) / rate, a number or a tensor that broadcasts to the shape; gradients flow to "
      "it.");
  r.def(
      "bernoulli",
      [](nb::handle p, nb::handle shape, nb::handle key) {
        const Keyed keyed(key);
        return to_python(shape.is_none() ? random::bernoulli(to_operand(p)) : random::bernoulli(to_operand(p), to_shape(shape)));
      },
      nb::arg("p"), nb::arg("shape") = nb::none(), nb::kw_only(), nb::arg("key") = nb::none(),
      "True with probability p; one draw per element of p, or of a shape to which p broadcasts.\n\n"
      "Raises AssertionFailed for a p outside of [0, 1].");
  r.def(
      "gamma",
      [](nb::handle alpha, nb::handle shape, nb::handle key) {
        return nb::module_::import_("lamina._draws").attr("gamma")(alpha, shape, key);
      },
      nb::arg("alpha"), nb::arg("shape") = nb::none(), nb::kw_only(), nb::arg("key") = nb::none(),
      "Numbers with the density x^(alpha - 1) exp(-x) / gamma(alpha), alpha > 0; one draw per element of alpha, or of a shape to which "
      "alpha\n"
      "broadcasts. Multiply by a scale for gamma(alpha, scale). No gradient flows to alpha. By rejection, Marsaglia and Tsang 2000.\n\n"
      "Raises AssertionFailed for alpha <= 0 or not finite.");
  r.def(
      "poisson",
      [](nb::handle rate, nb::handle shape, nb::handle key) {
        return nb::module_::import_("lamina._draws").attr("poisson")(rate, shape, key);
      },
      nb::arg("rate"), nb::arg("shape") = nb::none(), nb::kw_only(), nb::arg("key") = nb::none(),
      "int64 numbers of events, k with probability rate^k exp(-rate) / k!, 0 <= rate <= 2^50; one draw per element of rate, or of a shape "
      "to which\nrate broadcasts. By products of uniform numbers (Knuth) below 10, and by rejection (Hoermann 1993, PTRS) from there "
      "on.\n\n"
      "Raises AssertionFailed for a rate outside of that.");
  r.def(
      "categorical",
      [](nb::handle logits, nb::handle shape, nb::handle key) {
        const Keyed keyed(key);
        return to_python(random::categorical(to_operand(logits), to_shape(shape)));
      },
      nb::arg("logits"), nb::arg("shape") = nb::make_tuple(), nb::kw_only(), nb::arg("key") = nb::none(),
      "int64 numbers of categories, drawn with the probabilities softmax(logits) along the last axis; `shape` draws for each. By Gumbel's "
      "trick: the index\n"
      "of the largest of logits - log(-log(u)).\n\n"
      "Raises AssertionFailed for NaN, infinity, and where all are minus infinity.");
  r.def(
      "permutation",
      [](nb::handle x, nb::handle key) {
        const Keyed keyed(key);
        const bool number = PyIndex_Check(x.ptr()) && !is_tensor(x.ptr()) && !is_array(x.ptr());
        return to_python(number ? random::permutation(to_whole(x), CallSite()) : random::shuffle(to_operand(x), 0));
      },
      nb::arg("x"), nb::kw_only(), nb::arg("key") = nb::none(),
      "0, ..., n - 1 in random order (int64); of a tensor its parts along the first axis.");
  r.def(
      "shuffle",
      [](nb::handle x, int axis, nb::handle key) {
        const Keyed keyed(key);
        return to_python(random::shuffle(to_operand(x), axis));
      },
      nb::arg("x"), nb::arg("axis") = 0, nb::kw_only(), nb::arg("key") = nb::none(),
      "A tensor like x with its parts along an axis in random order.");
  r.def("randint", draw_integers, nb::arg("low"), nb::arg("high") = nb::none(), nb::arg("shape") = nb::make_tuple(),
        nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("key") = nb::none(), "The same as integers.");
  r.def(
      "choice", choose, nb::arg("x"), nb::arg("shape") = nb::make_tuple(), nb::arg("replace") = true, nb::arg("p") = nb::none(),
      nb::arg("axis") = 0, nb::kw_only(), nb::arg("key") = nb::none(),
      "Of 0, ..., x - 1 (int64) for an integer x, else of the parts of x along an axis: each equally likely or with probabilities p; "
      "without\n"
      "replacement none comes twice. p need not add up to 1. Raises InvalidArgument for more than there are, and AssertionFailed for a p\n"
      "that is negative or not finite, or 0 for so many that the draws are not possible.");
  r.def(
      "key", [](nb::handle seed) { return to_python(random::key(to_seed(seed))); }, nb::arg("seed"),
      "A key, int64 [2], for the functions' key=: they then draw from it alone, and not from the generator. The same key gives the same\n"
      "numbers, so use each once, and split it for more. Under lm.vmap a key that is not mapped gives each model numbers of its own.");
  r.def(
      "split", [](nb::handle key, int64_t num) { return to_python(random::split(to_operand(key), num)); }, nb::arg("key"),
      nb::arg("num") = 2, "New keys of a key, int64 [num, 2]: `a, b = lm.random.split(key)`.");
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
  Functions(m).def(
      "dropout", [](nb::handle x, NumberArgument rate) { return to_python(dropout(to_operand(x), to_number(rate))); }, nb::arg("x"),
      nb::arg("rate"), doc_of("dropout"));
}

}  // namespace lamina::python
