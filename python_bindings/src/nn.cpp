// Bindings for the Python layers: initializers, Dense, Dropout, losses and metrics of graph/nn.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/factories.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/nn/dense.h"
#include "graph/nn/initializer.h"
#include "graph/nn/loss.h"
#include "graph/nn/metric.h"
#include "graph/nn/shape_layers.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/nn.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {

nn::Initializer to_initializer(nb::handle value) {
  if (nb::isinstance<nn::Initializer>(value)) return instance<nn::Initializer>(value);
  if (PyUnicode_Check(value.ptr())) return nn::Initializer(nb::cast<std::string>(value));
  if (!PyCallable_Check(value.ptr())) {
    throw_type_error(cat(a_type(value.ptr()), " is not an initializer"), "",
                     "pass a name, one of lm.nn.initializers, or a function of the shape");
  }
  nb::object function = nb::borrow(value);
  return nn::Initializer("custom", [function](std::span<double> values, std::span<const int64_t> shape, uint64_t) {
    nb::list dims;
    for (const int64_t d : shape) dims.append(d);
    const Tensor made = to_tensor(function(nb::tuple(dims)));
    if (made.size() != int64_t(values.size())) {
      throw Error(ErrorKind::invalid_argument, {.what = cat("initializer: the function gave shape ", shape_text(made.shape()), ", not ",
                                                            shape_text(Shape(shape.begin(), shape.end())))});
    }
    const std::vector<double> numbers = made.to_vector<double>();
    std::copy(numbers.begin(), numbers.end(), values.begin());
  });
}

nn::Activation to_activation(nb::handle value) {
  if (value.is_none()) return {};
  if (PyUnicode_Check(value.ptr())) return nn::Activation(nb::cast<std::string>(value));
  if (!PyCallable_Check(value.ptr()))
    throw_type_error(cat(a_type(value.ptr()), " is not an activation"), "it is applied to the layer's outputs",
                     "pass a name such as \"relu\", or a function of a tensor");
  nb::object function = nb::borrow(value);
  return nn::Activation("custom", [function](const Operand& x) { return to_tensor(function(to_python(x.resolve()))); });
}

namespace {

Tensor initial_value(const nn::Initializer& init, nb::handle shape, nb::handle dtype, std::optional<uint64_t> seed) {
  const std::vector<int64_t> dims = numbers(to_shape(shape));
  const DType d = dtype.is_none() ? DType::f32 : to_dtype(dtype);
  const std::vector<double> values = init(dims, seed ? *seed : random::next_host_seed());
  const Tensor t = constant(values.data(), {DType::f64, Shape(dims.begin(), dims.end())});
  return astype(Operand(t, CallSite()), d);
}

void bind_initializers(nb::module_& m) {
  nb::class_<nn::Initializer>(m, "Initializer", "A weight's first value. Called with a shape it gives a tensor.")
      .def_prop_ro("name", [](const nn::Initializer& i) { return i.name(); })
      .def_prop_ro("_parameters", [](const nn::Initializer& i) { return i.parameters(); })
      .def_prop_ro("_seed", [](const nn::Initializer& i) { return i.seed(); })
      .def(
          "__call__",
          [](const nn::Initializer& i, nb::handle shape, nb::handle dtype, std::optional<uint64_t> seed) {
            return to_python(initial_value(i, shape, dtype, seed));
          },
          nb::arg("shape"), nb::arg("dtype") = nb::none(), nb::arg("seed") = nb::none())
      .def("__repr__", [](const nn::Initializer& i) { return cat("<lm.nn.initializers.", i.name(), ">"); });
  auto seeded = [](nn::Initializer i, std::optional<uint64_t> seed) { return seed ? i.seeded(*seed) : i; };
  m.def("get_initializer", to_initializer, nb::arg("initializer"),
        "The Initializer for a name, an Initializer or a function of the shape. Raises NotFound for an unknown name.");
  m.def("constant_value", [](double value) { return nn::constant_value(value); }, nb::arg("value"), "The same number everywhere.");
  m.def("zeros", [] { return nn::Initializer("zeros"); }, "Zeros.");
  m.def("ones", [] { return nn::Initializer("ones"); }, "Ones.");
#define BIND(name, doc) \
  m.def(#name, [seeded](std::optional<uint64_t> seed) { return seeded(nn::name(), seed); }, nb::arg("seed") = nb::none(), doc)
  BIND(glorot_uniform, "Uniform in +-sqrt(6 / (fan_in + fan_out)). Glorot and Bengio 2010.");
  BIND(glorot_normal, "Normal with deviation sqrt(2 / (fan_in + fan_out)), cut at two deviations. Glorot and Bengio 2010.");
  BIND(he_uniform, "Uniform in +-sqrt(6 / fan_in). He et al. 2015.");
  BIND(he_normal, "Normal with deviation sqrt(2 / fan_in), cut at two deviations. He et al. 2015.");
#undef BIND
  m.def(
      "random_uniform",
      [seeded](double low, double high, std::optional<uint64_t> seed) { return seeded(nn::random_uniform(low, high), seed); },
      nb::arg("low") = -0.05, nb::arg("high") = 0.05, nb::arg("seed") = nb::none(), "Uniform between low and high.");
  m.def(
      "random_normal",
      [seeded](double mean, double deviation, std::optional<uint64_t> seed) { return seeded(nn::random_normal(mean, deviation), seed); },
      nb::arg("mean") = 0.0, nb::arg("stddev") = 0.05, nb::arg("seed") = nb::none(), "Normal with this mean and deviation.");
  m.def(
      "orthogonal", [seeded](double gain, std::optional<uint64_t> seed) { return seeded(nn::orthogonal(gain), seed); },
      nb::arg("gain") = 1.0, nb::arg("seed") = nb::none(),
      "gain times orthonormal columns (rows, when there are fewer). Saxe et al. 2014.");
  m.def(
      "looks_linear",
      [seeded](bool mirror_in, bool mirror_out, std::optional<uint64_t> seed) {
        return seeded(nn::looks_linear(mirror_in, mirror_out), seed);
      },
      nb::arg("mirror_in") = true, nb::arg("mirror_out") = true, nb::arg("seed") = nb::none(),
      "Mirrored orthogonal weights: at the start a stack of ReLU layers of any depth computes an orthogonal linear map. The first layer "
      "takes\n"
      "mirror_in=False, the last (linear) one mirror_out=False or plain orthogonal. Mirrored sides must be even. Balduzzi et al. 2017.");
}

void bind_layers(nb::module_& m) {
  nb::class_<nn::Dense> dense(m, "Dense", "The computation of lm.nn.Dense.");
  bind_autocast(dense);
  dense
      .def(
          "__init__",
          [](nn::Dense* self, int64_t units, nb::handle activation, bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype,
             const std::string& name) {
            new (self) nn::Dense(units, nn::DenseOptions{to_activation(activation), use_bias, to_initializer(kernel), to_initializer(bias),
                                                         to_dtype(dtype), name});
          },
          nb::arg("units"), nb::arg("activation").none(), nb::arg("use_bias"), nb::arg("kernel_initializer"), nb::arg("bias_initializer"),
          nb::arg("dtype"), nb::arg("name"))
      .def(
          "build", [](nn::Dense& d, nb::handle shape) { d.build({d.options().dtype, to_shape(shape, true)}); }, nb::arg("input_shape"))
      .def(
          "call", [](nn::Dense& d, nb::handle x) { return to_python(d.call(d.input_of(to_operand(x)), false)); }, nb::arg("x"))
      .def_prop_ro("kernel", [](const nn::Dense& d) { return d.kernel(); })
      .def_prop_ro("bias", [](const nn::Dense& d) { return d.bias(); });
  nb::class_<nn::Dropout>(m, "Dropout", "The computation of lm.nn.Dropout.")
      .def(
          "__init__", [](nn::Dropout* self, double rate, const std::string& name) { new (self) nn::Dropout(rate, name); }, nb::arg("rate"),
          nb::arg("name"))
      .def(
          "call", [](nn::Dropout& d, nb::handle x, bool training) { return to_python(d.call(d.input_of(to_operand(x)), training)); },
          nb::arg("x"), nb::arg("training"));
  nb::class_<nn::Flatten>(m, "Flatten", "The computation of lm.nn.Flatten.")
      .def(
          "__init__", [](nn::Flatten* self, const std::string& name) { new (self) nn::Flatten(name); }, nb::arg("name"))
      .def("call", [](nn::Flatten& f, nb::handle x) { return to_python(f.call(f.input_of(to_operand(x)), false)); }, nb::arg("x"));
  m.def("_set_policy", [](const std::string& name) { nn::set_policy(name); }, nb::arg("name"), "What lm.nn.set_policy sets.");
  m.def("policy", [] { return nn::policy(); }, "The name that lm.nn.set_policy has set; \"float32\" before.");
  m.def(
      "activation", [](nb::handle which, nb::handle x) { return to_python(to_activation(which)(to_operand(x))); },
      nb::arg("activation").none(), nb::arg("x"), "An activation, by name or function, applied to x.");
}

template <class L>
void bind_loss(nb::module_& m, const char* name, const char* doc) {
  nb::class_<L, losses::Loss>(m, name, doc)
      .def("__init__", [](L* self, bool from_logits) { new (self) L(from_logits); }, nb::arg("from_logits") = false);
}

// Whether the loss is of a Python class that defines call(y_true, y_pred), the loss of each sample.
bool is_own(nb::handle loss) { return nb::hasattr(loss.type(), "call"); }

// A loss by name; one of a Python class has any name, by default the class's.
void make_loss(nb::pointer_and_handle<losses::Loss> self, const std::optional<std::string>& name) {
  const nb::handle type = self.h.type();
  if (is_own(self.h)) {
    new (self.p) losses::Loss(name ? *name : nb::cast<std::string>(type.attr("__name__")), losses::Loss::PerSample());
  } else if (name) {
    new (self.p) losses::Loss(*name);
  } else if (type.is(nb::type<losses::Loss>())) {
    throw_type_error("Loss: the argument 'name' is missing", "it says which loss it is",
                     "pass a name such as \"mse\", or derive a class with call(self, y_true, y_pred)");
  } else {
    throw_type_error(cat(nb::cast<std::string>(type.attr("__name__")), " does not define call()"), "a loss is computed by it",
                     "define call(self, y_true, y_pred), which returns the loss of each sample");
  }
}

Tensor per_sample(nb::handle loss, nb::handle y, nb::handle p) {
  if (!is_own(loss)) return instance<losses::Loss>(loss).per_sample(to_operand(y), to_operand(p));
  const auto argument = [](nb::handle value) { return nb::steal(wrap_argument(to_operand(value).resolve())); };
  const nb::object given = nb::module_::import_("lamina._callee").attr("callee")(loss.attr("call"))(argument(y), argument(p));
  if (given.is_none())
    throw_type_error(cat(nb::cast<std::string>(loss.type().attr("__name__")), ".call() gave None"),
                     "it gives the loss of each sample, a tensor", "return it");
  return to_tensor(given);
}

void bind_losses(nb::module_& root) {
  nb::module_ m = root.def_submodule("losses");
  nb::class_<losses::Loss>(
      m, "Loss", nb::is_weak_referenceable(),
      "The mean of a loss over samples: loss(y_true, y_pred), or of each loss times sample_weight, [n] or for the steps of sequences "
      "[n, t]: loss(y_true, y_pred, sample_weight). A class derived from it defines call(y_true, y_pred), the loss of each sample.")
      .def("__init__", make_loss, nb::arg("name") = nb::none())
      .def_prop_ro("name", [](const losses::Loss& l) { return l.name(); })
      .def_prop_ro("_parameters", [](const losses::Loss& l) { return l.parameters(); })
      .def(
          "__call__",
          [](nb::handle l, nb::handle y, nb::handle p, nb::handle weights) {
            if (!weights.is_none())
              return nb::cast<TensorObject>(
                  nb::module_::import_("lamina.losses").attr("_weighted_mean")(to_python(per_sample(l, y, p)), weights, "Loss"));
            return to_python(is_own(l) ? mean(Operand(per_sample(l, y, p), CallSite()))
                                       : instance<losses::Loss>(l)(to_operand(y), to_operand(p)));
          },
          nb::arg("y_true"), nb::arg("y_pred"), nb::arg("sample_weight") = nb::none())
      .def(
          "per_sample", [](nb::handle l, nb::handle y, nb::handle p) { return to_python(per_sample(l, y, p)); }, nb::arg("y_true"),
          nb::arg("y_pred"), "The loss of each sample, over the last axis of the predictions: [..., c] -> [...].");
  bind_loss<losses::SparseCrossEntropy>(
      m, "SparseCrossEntropy",
      "Mean cross entropy of labels [n] or [n, 1] (any numeric dtype, fractions are cut off) and predictions [n, classes].\n\n"
      "Raises IndexOutOfRange for a label outside 0..classes-1.");
  bind_loss<losses::CategoricalCrossEntropy>(m, "CategoricalCrossEntropy",
                                             "Mean cross entropy of rows of probabilities [n, classes] and predictions [n, classes].");
  bind_loss<losses::BinaryCrossEntropy>(m, "BinaryCrossEntropy",
                                        "Mean cross entropy of independent targets in 0..1 and predictions of the same shape.");
  nb::class_<losses::MeanSquaredError, losses::Loss>(m, "MeanSquaredError", "The mean of the squared errors.").def(nb::init<>());
  nb::class_<losses::MeanAbsoluteError, losses::Loss>(m, "MeanAbsoluteError", "The mean of the absolute errors.").def(nb::init<>());
  nb::class_<losses::Huber, losses::Loss>(m, "Huber", "Half the square of the error up to delta, linear from there on. Huber 1964.")
      .def(nb::init<double>(), nb::arg("delta") = 1.0);
  nb::class_<losses::KLDivergence, losses::Loss>(m, "KLDivergence",
                                                 "Mean of sum(y_true * log(y_true / y_pred)) over rows of probabilities.")
      .def(nb::init<>());
  nb::class_<losses::Hinge, losses::Loss>(m, "Hinge", "Mean of max(0, 1 - y_true * y_pred) of targets -1 and 1 (0 counts as -1).")
      .def(nb::init<>());
  nb::class_<losses::CosineSimilarity, losses::Loss>(m, "CosineSimilarity",
                                                     "Minus the mean cosine between rows: -1 for the same direction.")
      .def(nb::init<>());
  Functions functions(m, "losses.");
  functions.def(
      "huber",
      [](nb::handle y, nb::handle p, NumberArgument delta) {
        return to_python(losses::huber(to_operand(y), to_operand(p), to_number(delta)));
      },
      nb::arg("y_true"), nb::arg("y_pred"), nb::arg("delta") = 1.0,
      "The mean over the last axis: [..., c] and [..., c] -> [...]; see Huber.");
#define BIND(name, doc)                                                                                                                \
  functions.def(                                                                                                                       \
      #name,                                                                                                                           \
      [](nb::handle y, nb::handle p, bool from_logits) { return to_python(losses::name(to_operand(y), to_operand(p), from_logits)); }, \
      nb::arg("y_true"), nb::arg("y_pred"), nb::arg("from_logits") = false, doc)
  BIND(sparse_categorical_crossentropy, "Of each sample: labels [n] and predictions [n, c] -> [n]; see SparseCrossEntropy.");
  BIND(categorical_crossentropy, "Of each sample: [..., c] and [..., c] -> [...]; see CategoricalCrossEntropy.");
  BIND(binary_crossentropy, "The mean over the last axis: [..., c] and [..., c] -> [...]; see BinaryCrossEntropy.");
#undef BIND
#define BIND(name, doc)                                                                                                           \
  functions.def(                                                                                                                  \
      #name, [](nb::handle y, nb::handle p) { return to_python(losses::name(to_operand(y), to_operand(p))); }, nb::arg("y_true"), \
      nb::arg("y_pred"), doc " over the last axis: [..., c] and [..., c] -> [...]. Raises InvalidArgument for shapes that do not fit.")
  BIND(mean_squared_error, "The mean of (y_true - y_pred)^2");
  BIND(mean_absolute_error, "The mean of |y_true - y_pred|");
  BIND(mse, "The mean of (y_true - y_pred)^2");
  BIND(mae, "The mean of |y_true - y_pred|");
  BIND(kl_divergence, "The divergence of Kullback and Leibler, the sum of y_true log(y_true / y_pred),");
  BIND(hinge, "The mean of max(1 - y_true y_pred, 0), with labels -1 and 1 (0 counts as -1),");
  BIND(cosine_similarity, "Minus the cosine between y_true and y_pred, -1 for the same direction,");
#undef BIND
}

}  // namespace

void bind_nn(nb::module_& root) {
  nb::module_ m = root.def_submodule("nn");
  bind_initializers(m);
  bind_layers(m);
  bind_losses(root);
  root.def(
      "accuracy", [](nb::handle y, nb::handle p) { return to_python(metrics::accuracy(to_operand(y), to_operand(p))); }, nb::arg("y_true"),
      nb::arg("y_pred"), "Share of samples whose largest prediction is the label: a float32 scalar.");
}

}  // namespace lamina::python
