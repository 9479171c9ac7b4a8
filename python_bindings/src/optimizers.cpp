// Bindings for lm.optim: optimizers and schedules of learning rates.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/nn/optimizer.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/gil.h"
#include "python_bindings/src/nn.h"

namespace lamina::python {
namespace {

// A number, or a Variable of lm.per_model: named for type checkers, converted by to_hyper().
class HyperObject : public nb::object {
  static bool any(nb::handle) { return true; }
  NB_OBJECT(HyperObject, nb::object, "float | lamina._core.Variable", any)
};
using HyperArgument = const HyperObject&;

optim::Hyper to_hyper(HyperArgument value) {
  if (is_variable(value.ptr())) return optim::Hyper(as_variable(value.ptr()));
  if (is_tensor(value.ptr())) return to_number(value);
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    throw_type_error(cat(a_type(value.ptr()), " is no number"), "a hyperparameter is a number, or a Variable of lm.per_model",
                     "pass a float");
  }
  return number;
}

// A learning rate: also a schedule, or a function of the steps done.
class RateObject : public nb::object {
  static bool any(nb::handle) { return true; }
  NB_OBJECT(RateObject, nb::object, "float | lamina._core.Variable | lamina._core.schedules.Schedule | typing.Callable", any)
};
using RateArgument = const RateObject&;

// A schedule remembers what made it, for pickles: (name of the class, arguments), or ("", (function,)).
void made_of(optim::Schedule& s, const char* name, nb::tuple arguments) {
  s.origin = std::shared_ptr<const void>(nb::make_tuple(name, std::move(arguments)).release().ptr(), [](const void* o) {
    if (!Py_IsInitialized()) return;
    HeldGil gil;
    Py_DECREF(static_cast<PyObject*>(const_cast<void*>(o)));
  });
}

optim::Rate to_rate(nb::handle value) {
  if (nb::isinstance<optim::Schedule>(value)) return instance<optim::Schedule>(value);
  if (is_variable(value.ptr()) || !PyCallable_Check(value.ptr())) return to_hyper(nb::borrow<HyperObject>(value));
  nb::object function = nb::borrow(value);
  const std::string name = nb::cast<std::string>(nb::str(nb::getattr(function, "__name__", nb::str("function"))));
  optim::Schedule schedule(name, [function](const Tensor& steps, CallSite at) {  // as a float, with which Python's numbers go
    return to_tensor(function(to_python(astype(Operand(steps, at), DType::f64))));
  });
  made_of(schedule, "", nb::make_tuple(function));
  return schedule;
}

optim::UpdateOptions update_options(int64_t accumulation, std::optional<double> ema, bool scale) { return {accumulation, ema, scale}; }

#define LAMINA_UPDATE_PARAMETERS int64_t accumulation, std::optional<double> ema, bool loss_scale
#define LAMINA_UPDATE_OPTIONS update_options(accumulation, ema, loss_scale)
#define LAMINA_UPDATE_ARGUMENTS \
  nb::kw_only(), nb::arg("gradient_accumulation_steps") = 1, nb::arg("ema_momentum") = nb::none(), nb::arg("dynamic_loss_scale") = false

bool holds_tensors(PyObject* value) {
  if (PyDict_Check(value)) return true;
  if (!PyList_Check(value) && !PyTuple_Check(value)) return false;
  for (const nb::object& part : elements_of(value))
    if (part.is_none() || is_tensor(part.ptr()) || is_variable(part.ptr())) return true;
  return false;
}

void apply_gradients(optim::Optimizer& o, nb::handle pairs) {
  std::vector<optim::Optimizer::GradientAndVariable> all;
  for (const nb::object& pair : elements_of(pairs)) {
    nb::object items = nb::steal(PySequence_Tuple(pair.ptr()));
    if (!items.is_valid()) PyErr_Clear();
    if (!items.is_valid() || nb::len(items) != 2 || !is_variable(PyTuple_GET_ITEM(items.ptr(), 1))) {
      throw_type_error("apply_gradients: an item is not (gradient, Variable)", "each update is of one Variable by its gradient",
                       "pass zip(gradients, variables)");
    }
    PyObject* gradient = PyTuple_GET_ITEM(items.ptr(), 0);
    if (holds_tensors(gradient))
      throw_type_error(cat("apply_gradients: the gradient of '", as_variable(PyTuple_GET_ITEM(items.ptr(), 1)).name(), "' is ",
                           a_type(gradient), " of tensors"),
                       "each update is of one Variable by its gradient",
                       "take the gradients apart first: gradients, norm = lm.optim.clip_by_global_norm(gradients, limit)");
    all.emplace_back(gradient == Py_None ? Tensor() : to_tensor(gradient), as_variable(PyTuple_GET_ITEM(items.ptr(), 1)));
  }
  o.apply_gradients(all, CallSite());
}

void bind_schedules(nb::module_& root) {
  namespace sch = optim::schedules;
  using optim::Schedule;
  nb::module_ m = root.def_submodule("schedules");
  nb::class_<Schedule>(m, "Schedule", nb::is_weak_referenceable(), "A learning rate as a function of the steps done: schedule(steps).")
      .def(
          "__call__", [](const Schedule& s, nb::handle steps) { return to_python(s(to_operand(steps))); }, nb::arg("steps"),
          "The rate after this many steps: a float32 scalar.")
      .def_prop_ro("_made_of",
                   [](const Schedule& s) -> nb::object {
                     return s.origin ? nb::borrow(static_cast<PyObject*>(const_cast<void*>(s.origin.get()))) : nb::none();
                   })
      .def("__copy__", [](nb::object self) { return self; })  // it does not change
      .def(
          "__deepcopy__", [](nb::object self, nb::handle) { return self; }, nb::arg("memo"))
      .def("__repr__", [](const Schedule& s) { return cat("<lm.optim.schedules.", s.name(), ">"); });
  nb::class_<sch::Constant, Schedule>(m, "Constant", "The same rate always.")
      .def(
          "__init__",
          [](sch::Constant* self, HyperArgument rate) {
            new (self) sch::Constant(to_hyper(rate));
            made_of(*self, "Constant", nb::make_tuple(rate));
          },
          nb::arg("learning_rate"));
  nb::class_<sch::PiecewiseConstantDecay, Schedule>(m, "PiecewiseConstantDecay",
                                                    "values[0] up to and including step boundaries[0], then values[1], and so on.")
      .def(
          "__init__",
          [](sch::PiecewiseConstantDecay* self, const std::vector<int64_t>& boundaries, nb::handle values) {
            std::vector<optim::Hyper> rates;
            nb::list given;
            for (const nb::object& value : elements_of(values)) {
              rates.push_back(to_hyper(nb::borrow<HyperObject>(value)));
              given.append(value);
            }
            new (self) sch::PiecewiseConstantDecay(boundaries, rates);
            made_of(*self, "PiecewiseConstantDecay", nb::make_tuple(boundaries, given));
          },
          nb::arg("boundaries"), nb::arg("values"));
  nb::class_<sch::ExponentialDecay, Schedule>(
      m, "ExponentialDecay", "initial_learning_rate * decay_rate ** (steps / decay_steps); staircase: the exponent is rounded down.")
      .def(
          "__init__",
          [](sch::ExponentialDecay* self, HyperArgument rate, int64_t steps, HyperArgument factor, bool staircase) {
            new (self) sch::ExponentialDecay(to_hyper(rate), steps, to_hyper(factor), staircase);
            made_of(*self, "ExponentialDecay", nb::make_tuple(rate, steps, factor, staircase));
          },
          nb::arg("initial_learning_rate"), nb::arg("decay_steps"), nb::arg("decay_rate"), nb::arg("staircase") = false);
  nb::class_<sch::CosineDecay, Schedule>(
      m, "CosineDecay", "Half a cosine from the initial rate down to alpha times it in decay_steps. Loshchilov and Hutter 2017.")
      .def(
          "__init__",
          [](sch::CosineDecay* self, HyperArgument rate, int64_t steps, HyperArgument alpha) {
            new (self) sch::CosineDecay(to_hyper(rate), steps, to_hyper(alpha));
            made_of(*self, "CosineDecay", nb::make_tuple(rate, steps, alpha));
          },
          nb::arg("initial_learning_rate"), nb::arg("decay_steps"), nb::arg("alpha") = 0.0);
  nb::class_<sch::CosineDecayRestarts, Schedule>(
      m, "CosineDecayRestarts",
      "Periods of CosineDecay, each t_mul times as long as the one before, from a rate m_mul times as high. Loshchilov and Hutter 2017.")
      .def(
          "__init__",
          [](sch::CosineDecayRestarts* self, HyperArgument rate, int64_t steps, double t_mul, double m_mul, HyperArgument alpha) {
            new (self) sch::CosineDecayRestarts(to_hyper(rate), steps, t_mul, m_mul, to_hyper(alpha));
            made_of(*self, "CosineDecayRestarts", nb::make_tuple(rate, steps, t_mul, m_mul, alpha));
          },
          nb::arg("initial_learning_rate"), nb::arg("first_decay_steps"), nb::arg("t_mul") = 2.0, nb::arg("m_mul") = 1.0,
          nb::arg("alpha") = 0.0);
  nb::class_<sch::PolynomialDecay, Schedule>(
      m, "PolynomialDecay",
      "(initial - end) * (1 - steps / decay_steps) ** power + end; cycle: after decay_steps, decay_steps becomes its next multiple.")
      .def(
          "__init__",
          [](sch::PolynomialDecay* self, HyperArgument rate, int64_t steps, HyperArgument end, HyperArgument power, bool cycle) {
            new (self) sch::PolynomialDecay(to_hyper(rate), steps, to_hyper(end), to_hyper(power), cycle);
            made_of(*self, "PolynomialDecay", nb::make_tuple(rate, steps, end, power, cycle));
          },
          nb::arg("initial_learning_rate"), nb::arg("decay_steps"), nb::arg("end_learning_rate") = 0.0001, nb::arg("power") = 1.0,
          nb::arg("cycle") = false);
  nb::class_<sch::OneCycle, Schedule>(
      m, "OneCycle",
      "Up from max / div_factor to max_learning_rate in the first pct_start of the steps, then down to the first rate / final_div_factor, "
      "both along half\na cosine. Smith and Topin 2019.")
      .def(
          "__init__",
          [](sch::OneCycle* self, HyperArgument rate, int64_t steps, double start, double div_factor, double final_div_factor) {
            new (self) sch::OneCycle(to_hyper(rate), steps, start, div_factor, final_div_factor);
            made_of(*self, "OneCycle", nb::make_tuple(rate, steps, start, div_factor, final_div_factor));
          },
          nb::arg("max_learning_rate"), nb::arg("total_steps"), nb::arg("pct_start") = 0.3, nb::arg("div_factor") = 25.0,
          nb::arg("final_div_factor") = 1e4);
  nb::class_<sch::Warmup, Schedule>(
      m, "Warmup",
      "For warmup_steps linear from `start` to the first rate of another schedule or number, which follows from its beginning.")
      .def(
          "__init__",
          [](sch::Warmup* self, RateArgument schedule, int64_t steps, HyperArgument start) {
            new (self) sch::Warmup(to_rate(schedule), steps, to_hyper(start));
            made_of(*self, "Warmup", nb::make_tuple(schedule, steps, start));
          },
          nb::arg("schedule"), nb::arg("warmup_steps"), nb::arg("start") = 0.0);
}

void bind_base(nb::module_& m) {
  nb::class_<optim::Optimizer>(
      m, "Optimizer", nb::is_weak_referenceable(),
      "What a gradient does to a Variable. A hyperparameter is a number, or of lm.per_model for an ensemble; the learning rate "
      "also one\nof lm.optim.schedules, or a function of the steps done, a float64 scalar.\n\n"
      "gradient_accumulation_steps: every k-th call of apply_gradients is a step, with the mean gradient of k calls.\n"
      "ema_momentum: keeps averages of the weights, for averaged_weights().\n"
      "dynamic_loss_scale: for float16; scale_loss() multiplies the loss, steps that are not finite are left out.")
      .def(
          "build", [](optim::Optimizer& o, const std::vector<Variable>& variables) { o.build(variables); }, nb::arg("variables"),
          "Makes the slots of these Variables; from then on the optimizer takes no others.")
      .def(
          "add_variables",
          [](optim::Optimizer& o, const std::vector<Variable>& variables, const std::optional<std::vector<Variable>>& order) {
            o.add_variables(variables, order.value_or(std::vector<Variable>()));
          },
          nb::arg("variables"), nb::arg("order") = nb::none(),
          "Makes slots for those of these Variables that have none yet: what has become trainable since. The slots of Variables in "
          "`order`, by "
          "default\nthose given, then follow one another as there: pass model.variables where some of them are not trainable now.")
      .def("apply_gradients", apply_gradients, nb::arg("gradients_and_variables"),
           "One step. Takes any iterable of (gradient, Variable), once; pairs whose gradient is None are left out.\n\n"
           "Raises InvalidArgument for a Variable that the optimizer was not built for.")
      .def_prop_rw(
          "learning_rate",
          [](const optim::Optimizer& o) {
            return o.schedule() ? to_python(o.current_learning_rate(CallSite())) : nb::cast(o.learning_rate());
          },
          [](const optim::Optimizer& o, nb::handle rate) {
            if (nb::isinstance<optim::Schedule>(rate))
              throw_type_error(cat(o.name(), ": a schedule cannot take the place of the learning rate"),
                               "the graphs of steps read the rate from the Variable that the optimizer was made with",
                               "make the optimizer with the schedule");
            o.learning_rate().assign(to_operand(rate));
          },
          nb::for_getter(nb::sig("def learning_rate(self, /) -> typing.Any")),
          nb::for_setter(nb::sig("def learning_rate(self, rate: object, /) -> None")),
          "A float32 Variable (of lm.per_model: stacked): assigning it changes later steps and traces nothing anew. Of a schedule, a "
          "tensor: the "
          "rate of the\nnext step.")
      .def_prop_ro(
          "schedule", [](const optim::Optimizer& o) -> nb::object { return o.schedule() ? nb::cast(*o.schedule()) : nb::none(); },
          "The learning rate's schedule, or None.")
      .def_prop_ro(
          "iterations",
          [](optim::Optimizer& o) {
            try {
              o.count_steps();
            } catch (const Error& e) {
              throw nb::attribute_error(e.what());
            }
            return o.iterations();
          },
          "How many steps were done: an int64 Variable. SGD, RMSprop, Adagrad and Lion without a schedule or averages count from the first "
          "reading of it on.\n\nRaises AttributeError where that comes after the first step.")
      .def_prop_ro("_counts", [](const optim::Optimizer& o) { return o.counts(); })
      .def(
          "scale_loss", [](const optim::Optimizer& o, nb::handle loss) { return to_python(o.scale_loss(to_operand(loss))); },
          nb::arg("loss"),
          "The loss to differentiate: with dynamic_loss_scale, times the scale that apply_gradients divides by; otherwise the loss itself.")
      .def(
          "averaged_weights", [](nb::object self) { return nb::module_::import_("lamina.optim").attr("_AveragedWeights")(self); },
          "A context in which the weights are their moving averages (ema_momentum), for evaluating and saving; afterwards they are as "
          "before.\n\nRaises StateError without ema_momentum, and before the first step.")
      .def_prop_ro("_averages", [](const optim::Optimizer& o) { return o.averages(); })
      .def_prop_ro("_slots_per_variable", [](const optim::Optimizer& o) { return o.slots_per_variable(); })
      .def_prop_ro("_switches",
                   [](const optim::Optimizer& o) {
                     const optim::UpdateOptions& own = o.update_options();
                     nb::dict out;
                     out["gradient_accumulation_steps"] = own.gradient_accumulation_steps;
                     out["ema_momentum"] = own.ema_momentum ? nb::cast(*own.ema_momentum) : nb::none();
                     out["dynamic_loss_scale"] = own.dynamic_loss_scale;
                     return out;
                   })
      .def_prop_ro("name", [](const optim::Optimizer& o) { return o.name(); })
      .def_prop_ro("_parameters",
                   [](const optim::Optimizer& o) {
                     nb::dict out;
                     for (const auto& [name, value] : o.hyperparameters())
                       out[nb::cast(name)] = value.per_model() ? nb::cast(*value.per_model()) : nb::cast(value.value());
                     return out;
                   })
      .def_prop_ro("_trained_variables", [](const optim::Optimizer& o) { return o.trained_variables(); })
      .def_prop_ro("built", [](const optim::Optimizer& o) { return o.built(); })
      .def_prop_ro(
          "variables", [](const optim::Optimizer& o) { return o.variables(); },
          "The learning rate unless it is a schedule, the step counter where there is one, other numbers, and the slots.")
      .def(
          "state_dict", [](nb::object self) { return nb::module_::import_("lamina._state").attr("of_optimizer")(self); },
          "{name: NumPy copy} of its variables: \"learning_rate\", and \"0.momentum\" for a slot of the first weight.")
      .def(
          "load_state_dict",
          [](nb::object self, nb::handle state, bool strict) {
            nb::module_::import_("lamina._state").attr("into_optimizer")(self, state, strict);
          },
          nb::arg("state"), nb::arg("strict") = true,
          "Assigns what state_dict() gave; the slots exist after build() or the first step. Nothing is changed when something does not "
          "fit.\n\n"
          "Raises NotFound for names that are missing or unknown unless strict is False, InvalidArgument for other shapes, TypeMismatch "
          "for\n"
          "other dtypes.");
}

template <class T, class Base>
void bind_adam(nb::class_<T, Base> adam) {
  adam.def(
      "__init__",
      [](T* self, RateArgument rate, HyperArgument beta_1, HyperArgument beta_2, HyperArgument epsilon, HyperArgument weight_decay,
         LAMINA_UPDATE_PARAMETERS) {
        new (self) T(to_rate(rate), {to_hyper(beta_1), to_hyper(beta_2), to_hyper(epsilon), to_hyper(weight_decay)}, LAMINA_UPDATE_OPTIONS);
      },
      nb::arg("learning_rate") = 0.001, nb::arg("beta_1") = 0.9, nb::arg("beta_2") = 0.999, nb::arg("epsilon") = 1e-7,
      nb::arg("weight_decay") = 0.0, LAMINA_UPDATE_ARGUMENTS);
}

void bind_rules(nb::module_& m) {
  nb::class_<optim::SGD, optim::Optimizer>(m, "SGD", "Gradient descent, with momentum and Nesterov's form of it.")
      .def(
          "__init__",
          [](optim::SGD* self, RateArgument rate, HyperArgument momentum, bool nesterov, LAMINA_UPDATE_PARAMETERS) {
            new (self) optim::SGD(to_rate(rate), to_hyper(momentum), nesterov, LAMINA_UPDATE_OPTIONS);
          },
          nb::arg("learning_rate") = 0.01, nb::arg("momentum") = 0.0, nb::arg("nesterov") = false, LAMINA_UPDATE_ARGUMENTS);
  nb::class_<optim::RMSprop, optim::Optimizer>(m, "RMSprop", "Gradients divided by a running root mean square. Tieleman and Hinton 2012.")
      .def(
          "__init__",
          [](optim::RMSprop* self, RateArgument rate, HyperArgument rho, HyperArgument momentum, HyperArgument epsilon, bool centered,
             LAMINA_UPDATE_PARAMETERS) {
            new (self)
                optim::RMSprop(to_rate(rate), {to_hyper(rho), to_hyper(momentum), to_hyper(epsilon), centered}, LAMINA_UPDATE_OPTIONS);
          },
          nb::arg("learning_rate") = 0.001, nb::arg("rho") = 0.9, nb::arg("momentum") = 0.0, nb::arg("epsilon") = 1e-7,
          nb::arg("centered") = false, LAMINA_UPDATE_ARGUMENTS);
  bind_adam(nb::class_<optim::Adam, optim::Optimizer>(m, "Adam", "Kingma and Ba 2015."));
  nb::class_<optim::AdamW, optim::Adam>(m, "AdamW", "Adam with decoupled weight decay. Loshchilov and Hutter 2019.")
      .def(
          "__init__",
          [](optim::AdamW* self, RateArgument rate, HyperArgument weight_decay, HyperArgument beta_1, HyperArgument beta_2,
             HyperArgument epsilon, LAMINA_UPDATE_PARAMETERS) {
            new (self) optim::AdamW(to_rate(rate), {to_hyper(beta_1), to_hyper(beta_2), to_hyper(epsilon), to_hyper(weight_decay)},
                                    LAMINA_UPDATE_OPTIONS);
          },
          nb::arg("learning_rate") = 0.001, nb::arg("weight_decay") = 0.004, nb::arg("beta_1") = 0.9, nb::arg("beta_2") = 0.999,
          nb::arg("epsilon") = 1e-7, LAMINA_UPDATE_ARGUMENTS);
  bind_adam(nb::class_<optim::Nadam, optim::Adam>(m, "Nadam", "Adam with Nesterov's momentum. Dozat 2016."));
  nb::class_<optim::Adagrad, optim::Optimizer>(m, "Adagrad",
                                               "Gradients divided by the root of the sum of their squares. Duchi, Hazan and Singer 2011.")
      .def(
          "__init__",
          [](optim::Adagrad* self, RateArgument rate, double start, HyperArgument epsilon, LAMINA_UPDATE_PARAMETERS) {
            new (self) optim::Adagrad(to_rate(rate), {start, to_hyper(epsilon)}, LAMINA_UPDATE_OPTIONS);
          },
          nb::arg("learning_rate") = 0.001, nb::arg("initial_accumulator_value") = 0.1, nb::arg("epsilon") = 1e-7, LAMINA_UPDATE_ARGUMENTS);
  nb::class_<optim::Lion, optim::Optimizer>(m, "Lion",
                                            "The sign of a momentum; wants about a tenth of Adam's learning rate. Chen et al. 2023.")
      .def(
          "__init__",
          [](optim::Lion* self, RateArgument rate, HyperArgument beta_1, HyperArgument beta_2, HyperArgument weight_decay,
             LAMINA_UPDATE_PARAMETERS) {
            new (self) optim::Lion(to_rate(rate), {to_hyper(beta_1), to_hyper(beta_2), to_hyper(weight_decay)}, LAMINA_UPDATE_OPTIONS);
          },
          nb::arg("learning_rate") = 0.001, nb::arg("beta_1") = 0.9, nb::arg("beta_2") = 0.99, nb::arg("weight_decay") = 0.0,
          LAMINA_UPDATE_ARGUMENTS);
}

}  // namespace

void bind_optimizers(nb::module_& root) {
  bind_schedules(root);
  nb::module_ m = root.def_submodule("optim");
  bind_base(m);
  bind_rules(m);
}

}  // namespace lamina::python
