// Convolution, pooling, normalisation and embedding: functions of lm, used by the Python layers.
#include "graph/functions/image.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "graph/functions/normalize.h"
#include "graph/nn/conv.h"
#include "graph/nn/normalization.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/nn.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {
namespace {

// A number for both, or (rows, columns).
Pair to_pair(nb::handle value, const char* what) {
  const std::vector<int64_t> all = to_axes(value);
  if (all.size() == 1) return {all[0], all[0]};
  if (all.size() == 2) return {all[0], all[1]};
  throw Error(ErrorKind::invalid_argument, {.what = cat(what, " are ", all.size(), " numbers"),
                                            .where = cat("argument '", what, "'"),
                                            .why = "there are two, for rows and columns, or one for both",
                                            .fix = "pass a number or a pair"});
}
Pair to_pair_or(nb::handle value, const char* what, Pair otherwise) { return value.is_none() ? otherwise : to_pair(value, what); }

// "valid", "same", a number, (rows, columns), or ((above, below), (left, right)).
ImagePadding to_padding(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
  if (!PySequence_Check(value.ptr())) {
    const Pair p = to_pair(value, "padding");
    return {p[0], p[0], p[1], p[1]};
  }
  const nb::object items = nb::steal(PySequence_Tuple(value.ptr()));
  if (!items.is_valid()) throw_python_error();
  if (nb::len(items) == 2 && PySequence_Check(nb::object(items[0]).ptr())) {
    const Pair rows = to_pair(items[0], "padding"), columns = to_pair(items[1], "padding");
    return {rows[0], rows[1], columns[0], columns[1]};
  }
  const Pair p = to_pair(value, "padding");
  return {p[0], p[0], p[1], p[1]};
}
ImagePadding to_line_padding(nb::handle value) {  // for sequences: (before, after)
  if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
  const Pair p = to_pair(value, "padding");
  return {0, 0, p[0], p[1]};
}

int64_t to_one(nb::handle value, const char* what) {
  const std::vector<int64_t> all = to_axes(value);
  if (all.size() == 1) return all[0];
  throw Error(ErrorKind::invalid_argument, {.what = cat(what, " are ", all.size(), " numbers"),
                                            .where = cat("argument '", what, "'"),
                                            .why = "a sequence has one axis",
                                            .fix = "pass one number"});
}

Tensor optional_tensor(nb::handle value) { return value.is_none() ? Tensor() : to_tensor(value); }

void bind_functions(nb::module_& module) {
  Functions m(module);
  m.def(
      "conv2d",
      [](nb::handle x, nb::handle filters, nb::handle strides, nb::handle padding, nb::handle dilation, int64_t groups) {
        const Operand image = to_operand(x), w = to_operand(filters);
        const Conv2dOptions options{to_pair(strides, "strides"), to_padding(padding), to_pair(dilation, "dilation"), groups};
        return unlocked({&image, &w}, [&] { return conv2d(image, w, options); });
      },
      nb::arg("x"), nb::arg("filters"), nb::arg("strides") = 1, nb::arg("padding") = "valid", nb::arg("dilation") = 1,
      nb::arg("groups") = 1, doc_of("conv2d"));
  m.def(
      "conv1d",
      [](nb::handle x, nb::handle filters, nb::handle stride, nb::handle padding, nb::handle dilation, int64_t groups) {
        const Operand sequence = to_operand(x), w = to_operand(filters);
        const Conv1dOptions options{to_one(stride, "stride"), to_line_padding(padding), to_one(dilation, "dilation"), groups};
        return unlocked({&sequence, &w}, [&] { return conv1d(sequence, w, options); });
      },
      nb::arg("x"), nb::arg("filters"), nb::arg("stride") = 1, nb::arg("padding") = "valid", nb::arg("dilation") = 1, nb::arg("groups") = 1,
      "x [n,l,c] and filters [a,c/groups,o] -> [n,l',o]. padding: \"valid\", \"same\", a number or (before, after).");
  m.def(
      "conv2d_transpose",
      [](nb::handle x, nb::handle filters, nb::handle strides, nb::handle padding, nb::handle dilation, nb::handle output_padding,
         int64_t groups) {
        const Operand image = to_operand(x), w = to_operand(filters);
        const Conv2dTransposeOptions options{to_pair(strides, "strides"), to_padding(padding), to_pair(dilation, "dilation"),
                                             to_pair(output_padding, "output_padding"), groups};
        return unlocked({&image, &w}, [&] { return conv2d_transpose(image, w, options); });
      },
      nb::arg("x"), nb::arg("filters"), nb::arg("strides") = 1, nb::arg("padding") = "valid", nb::arg("dilation") = 1,
      nb::arg("output_padding") = 0, nb::arg("groups") = 1,
      "The gradient of conv2d by its input: x [n,h,w,c] and filters [a,b,o/groups,c] -> [n,h',w',o], enlarged by the strides.");
  m.def(
      "max_pool2d",
      [](nb::handle x, nb::handle window, nb::handle strides, nb::handle padding) {
        const Operand image = to_operand(x);
        const Pair size = to_pair(window, "window"), steps = to_pair_or(strides, "strides", {0, 0});
        const ImagePadding around = to_padding(padding);
        return unlocked({&image}, [&] { return max_pool2d(image, size, steps, around); });
      },
      nb::arg("x"), nb::arg("window") = 2, nb::arg("strides") = nb::none(), nb::arg("padding") = "valid",
      "The largest element under a window over images [n,h,w,c]; strides as the window when not given. NaN where one is under the window.");
  m.def(
      "avg_pool2d",
      [](nb::handle x, nb::handle window, nb::handle strides, nb::handle padding) {
        const Operand image = to_operand(x);
        const Pair size = to_pair(window, "window"), steps = to_pair_or(strides, "strides", {0, 0});
        const ImagePadding around = to_padding(padding);
        return unlocked({&image}, [&] { return avg_pool2d(image, size, steps, around); });
      },
      nb::arg("x"), nb::arg("window") = 2, nb::arg("strides") = nb::none(), nb::arg("padding") = "valid",
      "The mean under a window over images [n,h,w,c], padding left out; strides as the window when not given.");
  m.def(
      "moments",
      [](nb::handle x, nb::handle axis, bool keepdims) {
        Moments result = moments(to_operand(x), to_axes_or_all(axis), keepdims);
        return nb::make_tuple(to_python(result.mean), to_python(result.variance));
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false,
      "(mean, variance) over an axis or several, over all without.");
  m.def(
      "batch_norm",
      [](nb::handle x, nb::handle mean, nb::handle variance, nb::handle offset, nb::handle scale, NumberArgument epsilon) {
        return to_python(batch_norm(to_operand(x), to_operand(mean), to_operand(variance), optional_tensor(offset), optional_tensor(scale),
                                    to_number(epsilon)));
      },
      nb::arg("x"), nb::arg("mean"), nb::arg("variance"), nb::arg("offset") = nb::none(), nb::arg("scale") = nb::none(),
      nb::arg("epsilon") = 1e-3, "(x - mean) / sqrt(variance + epsilon) * scale + offset. Ioffe and Szegedy 2015.");
  m.def(
      "layer_norm",
      [](nb::handle x, nb::handle scale, nb::handle offset, nb::handle axis, NumberArgument epsilon) {
        return to_python(layer_norm(to_operand(x), optional_tensor(scale), optional_tensor(offset), to_axes(axis), to_number(epsilon)));
      },
      nb::arg("x"), nb::arg("scale") = nb::none(), nb::arg("offset") = nb::none(), nb::arg("axis") = -1, nb::arg("epsilon") = 1e-5,
      "x brought to mean 0 and variance 1 over an axis or several, times scale plus offset. Ba, Kiros and Hinton 2016.");
}

nn::ConvOptions conv_options(nb::handle strides, nb::handle padding, nb::handle dilation, int64_t groups, nb::handle activation,
                             bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype, const std::string& name, bool line) {
  return {line ? Pair{1, to_one(strides, "strides")} : to_pair(strides, "strides"),
          line ? to_line_padding(padding) : to_padding(padding),
          line ? Pair{1, to_one(dilation, "dilation_rate")} : to_pair(dilation, "dilation_rate"),
          groups,
          to_activation(activation),
          use_bias,
          to_initializer(kernel),
          to_initializer(bias),
          to_dtype(dtype),
          name};
}

template <class L>
void bind_plain_call(nb::class_<L>& c) {
  c.def("call", [](L& l, nb::handle x) { return to_python(l.call(l.input_of(to_operand(x)), false)); }, nb::arg("x"));
}

// Arguments shared by layers with a kernel and a bias.
template <class L>
void bind_conv_members(nb::class_<L>& c) {
  bind_autocast(c);
  c.def(
       "build", [](L& l, nb::handle shape) { l.build({l.options().dtype, to_shape(shape, true)}); }, nb::arg("input_shape"))
      .def(
          "call", [](L& l, nb::handle x) { return to_python(l.call(l.input_of(to_operand(x)), false)); }, nb::arg("x"))
      .def_prop_ro("kernel", [](const L& l) { return l.kernel(); })
      .def_prop_ro("bias", [](const L& l) { return l.bias(); });
}

void bind_image_layers(nb::module_& m) {
  nb::class_<nn::Conv2D> conv2d_class(m, "Conv2D", "The computation of lm.nn.Conv2D.");
  conv2d_class.def(
      "__init__",
      [](nn::Conv2D* self, int64_t filters, nb::handle window, nb::handle strides, nb::handle padding, nb::handle dilation, int64_t groups,
         nb::handle activation, bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype, const std::string& name) {
        new (self) nn::Conv2D(filters, to_pair(window, "kernel_size"),
                              conv_options(strides, padding, dilation, groups, activation, use_bias, kernel, bias, dtype, name, false));
      },
      nb::arg("filters"), nb::arg("kernel_size"), nb::arg("strides"), nb::arg("padding"), nb::arg("dilation_rate"), nb::arg("groups"),
      nb::arg("activation").none(), nb::arg("use_bias"), nb::arg("kernel_initializer"), nb::arg("bias_initializer"), nb::arg("dtype"),
      nb::arg("name"));
  bind_conv_members(conv2d_class);
  nb::class_<nn::Conv2DTranspose> transpose_class(m, "Conv2DTranspose", "The computation of lm.nn.Conv2DTranspose.");
  transpose_class.def(
      "__init__",
      [](nn::Conv2DTranspose* self, int64_t filters, nb::handle window, nb::handle strides, nb::handle padding, nb::handle dilation,
         int64_t groups, nb::handle activation, bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype,
         const std::string& name, nb::handle output_padding) {
        new (self)
            nn::Conv2DTranspose(filters, to_pair(window, "kernel_size"),
                                conv_options(strides, padding, dilation, groups, activation, use_bias, kernel, bias, dtype, name, false),
                                to_pair(output_padding, "output_padding"));
      },
      nb::arg("filters"), nb::arg("kernel_size"), nb::arg("strides"), nb::arg("padding"), nb::arg("dilation_rate"), nb::arg("groups"),
      nb::arg("activation").none(), nb::arg("use_bias"), nb::arg("kernel_initializer"), nb::arg("bias_initializer"), nb::arg("dtype"),
      nb::arg("name"), nb::arg("output_padding"));
  bind_conv_members(transpose_class);
  nb::class_<nn::Conv1D> conv1d_class(m, "Conv1D", "The computation of lm.nn.Conv1D.");
  conv1d_class.def(
      "__init__",
      [](nn::Conv1D* self, int64_t filters, nb::handle window, nb::handle strides, nb::handle padding, nb::handle dilation, int64_t groups,
         nb::handle activation, bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype, const std::string& name) {
        new (self) nn::Conv1D(filters, to_one(window, "kernel_size"),
                              conv_options(strides, padding, dilation, groups, activation, use_bias, kernel, bias, dtype, name, true));
      },
      nb::arg("filters"), nb::arg("kernel_size"), nb::arg("strides"), nb::arg("padding"), nb::arg("dilation_rate"), nb::arg("groups"),
      nb::arg("activation").none(), nb::arg("use_bias"), nb::arg("kernel_initializer"), nb::arg("bias_initializer"), nb::arg("dtype"),
      nb::arg("name"));
  bind_conv_members(conv1d_class);
  nb::class_<nn::Conv1DTranspose> line_transpose_class(m, "Conv1DTranspose", "The computation of lm.nn.Conv1DTranspose.");
  line_transpose_class.def(
      "__init__",
      [](nn::Conv1DTranspose* self, int64_t filters, nb::handle window, nb::handle strides, nb::handle padding, nb::handle dilation,
         int64_t groups, nb::handle activation, bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype,
         const std::string& name, int64_t output_padding) {
        new (self) nn::Conv1DTranspose(
            filters, to_one(window, "kernel_size"),
            conv_options(strides, padding, dilation, groups, activation, use_bias, kernel, bias, dtype, name, true), output_padding);
      },
      nb::arg("filters"), nb::arg("kernel_size"), nb::arg("strides"), nb::arg("padding"), nb::arg("dilation_rate"), nb::arg("groups"),
      nb::arg("activation").none(), nb::arg("use_bias"), nb::arg("kernel_initializer"), nb::arg("bias_initializer"), nb::arg("dtype"),
      nb::arg("name"), nb::arg("output_padding"));
  bind_conv_members(line_transpose_class);
  nb::class_<nn::DepthwiseConv2D> depthwise_class(m, "DepthwiseConv2D", "The computation of lm.nn.DepthwiseConv2D.");
  depthwise_class.def(
      "__init__",
      [](nn::DepthwiseConv2D* self, nb::handle window, int64_t multiplier, nb::handle strides, nb::handle padding, nb::handle dilation,
         nb::handle activation, bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype, const std::string& name) {
        new (self) nn::DepthwiseConv2D(to_pair(window, "kernel_size"), multiplier,
                                       conv_options(strides, padding, dilation, 1, activation, use_bias, kernel, bias, dtype, name, false));
      },
      nb::arg("kernel_size"), nb::arg("depth_multiplier"), nb::arg("strides"), nb::arg("padding"), nb::arg("dilation_rate"),
      nb::arg("activation").none(), nb::arg("use_bias"), nb::arg("depthwise_initializer"), nb::arg("bias_initializer"), nb::arg("dtype"),
      nb::arg("name"));
  bind_conv_members(depthwise_class);
  nb::class_<nn::Pool1D> pool_class(m, "Pool1D", "The computation of lm.nn.MaxPool1D and lm.nn.AveragePooling1D.");
  pool_class.def(
      "__init__",
      [](nn::Pool1D* self, bool max, nb::handle window, nb::handle stride, nb::handle padding, const std::string& name) {
        new (self) nn::Pool1D(max ? nn::Pool2D::Kind::max : nn::Pool2D::Kind::average, to_one(window, "pool_size"),
                              stride.is_none() ? 0 : to_one(stride, "strides"), to_line_padding(padding), name);
      },
      nb::arg("max"), nb::arg("pool_size"), nb::arg("strides").none(), nb::arg("padding"), nb::arg("name"));
  bind_plain_call(pool_class);
  nb::class_<nn::UpSampling2D> up_class(m, "UpSampling2D", "The computation of lm.nn.UpSampling2D.");
  up_class.def(
      "__init__",
      [](nn::UpSampling2D* self, nb::handle size, const std::string& name) { new (self) nn::UpSampling2D(to_pair(size, "size"), name); },
      nb::arg("size"), nb::arg("name"));
  bind_plain_call(up_class);
  nb::class_<nn::ZeroPadding2D> zeros_class(m, "ZeroPadding2D", "The computation of lm.nn.ZeroPadding2D.");
  zeros_class.def(
      "__init__",
      [](nn::ZeroPadding2D* self, nb::handle padding, const std::string& name) {
        new (self) nn::ZeroPadding2D(to_padding(padding).pads(), name);
      },
      nb::arg("padding"), nb::arg("name"));
  bind_plain_call(zeros_class);
}

void bind_normalization_layers(nb::module_& m) {
  nb::class_<nn::BatchNorm> batch_norm_class(m, "BatchNorm", "The computation of lm.nn.BatchNorm.");
  bind_autocast(batch_norm_class);
  batch_norm_class
      .def(
          "__init__",
          [](nn::BatchNorm* self, double momentum, double epsilon, bool center, bool scale, nb::handle dtype, const std::string& name) {
            new (self) nn::BatchNorm({momentum, epsilon, center, scale, to_dtype(dtype), name});
          },
          nb::arg("momentum"), nb::arg("epsilon"), nb::arg("center"), nb::arg("scale"), nb::arg("dtype"), nb::arg("name"))
      .def(
          "build", [](nn::BatchNorm& l, nb::handle shape) { l.build({l.options().dtype, to_shape(shape, true)}); }, nb::arg("input_shape"))
      .def(
          "call", [](nn::BatchNorm& l, nb::handle x, bool training) { return to_python(l.call(l.input_of(to_operand(x)), training)); },
          nb::arg("x"), nb::arg("training"))
      .def_prop_ro("gamma", [](const nn::BatchNorm& l) { return l.gamma(); })
      .def_prop_ro("beta", [](const nn::BatchNorm& l) { return l.beta(); })
      .def_prop_ro("moving_mean", [](const nn::BatchNorm& l) { return l.moving_mean(); })
      .def_prop_ro("moving_variance", [](const nn::BatchNorm& l) { return l.moving_variance(); });
  nb::class_<nn::LayerNorm> layer_norm_class(m, "LayerNorm", "The computation of lm.nn.LayerNorm.");
  bind_autocast(layer_norm_class);
  layer_norm_class
      .def(
          "__init__",
          [](nn::LayerNorm* self, nb::handle axis, double epsilon, bool center, bool scale, nb::handle dtype, const std::string& name) {
            new (self) nn::LayerNorm({to_axes(axis), epsilon, center, scale, to_dtype(dtype), name});
          },
          nb::arg("axis"), nb::arg("epsilon"), nb::arg("center"), nb::arg("scale"), nb::arg("dtype"), nb::arg("name"))
      .def(
          "build", [](nn::LayerNorm& l, nb::handle shape) { l.build({l.options().dtype, to_shape(shape, true)}); }, nb::arg("input_shape"))
      .def(
          "call", [](nn::LayerNorm& l, nb::handle x) { return to_python(l.call(l.input_of(to_operand(x)), false)); }, nb::arg("x"))
      .def_prop_ro("gamma", [](const nn::LayerNorm& l) { return l.gamma(); })
      .def_prop_ro("beta", [](const nn::LayerNorm& l) { return l.beta(); });
  nb::class_<nn::RMSNorm> rms_class(m, "RMSNorm", "The computation of lm.nn.RMSNorm.");
  bind_autocast(rms_class);
  rms_class
      .def(
          "__init__",
          [](nn::RMSNorm* self, double epsilon, nb::handle dtype, const std::string& name) {
            new (self) nn::RMSNorm({epsilon, to_dtype(dtype), name});
          },
          nb::arg("epsilon"), nb::arg("dtype"), nb::arg("name"))
      .def(
          "build", [](nn::RMSNorm& l, nb::handle shape) { l.build({l.options().dtype, to_shape(shape, true)}); }, nb::arg("input_shape"))
      .def_prop_ro("scale", [](const nn::RMSNorm& l) { return l.scale(); });
  bind_plain_call(rms_class);
  nb::class_<nn::GroupNorm> group_class(m, "GroupNorm", "The computation of lm.nn.GroupNorm.");
  bind_autocast(group_class);
  group_class
      .def(
          "__init__",
          [](nn::GroupNorm* self, int64_t groups, double epsilon, bool center, bool scale, nb::handle dtype, const std::string& name) {
            new (self) nn::GroupNorm({groups, epsilon, center, scale, to_dtype(dtype), name});
          },
          nb::arg("groups"), nb::arg("epsilon"), nb::arg("center"), nb::arg("scale"), nb::arg("dtype"), nb::arg("name"))
      .def(
          "build", [](nn::GroupNorm& l, nb::handle shape) { l.build({l.options().dtype, to_shape(shape, true)}); }, nb::arg("input_shape"))
      .def_prop_ro("gamma", [](const nn::GroupNorm& l) { return l.gamma(); })
      .def_prop_ro("beta", [](const nn::GroupNorm& l) { return l.beta(); });
  bind_plain_call(group_class);
  nb::class_<nn::Embedding> embedding_class(m, "Embedding", "The computation of lm.nn.Embedding.");
  bind_weights(embedding_class);
  embedding_class
      .def(
          "__init__",
          [](nn::Embedding* self, int64_t classes, int64_t width, nb::handle initializer, nb::handle dtype, const std::string& name) {
            new (self) nn::Embedding(classes, width, {to_initializer(initializer), to_dtype(dtype), name});
          },
          nb::arg("input_dim"), nb::arg("output_dim"), nb::arg("embeddings_initializer"), nb::arg("dtype"), nb::arg("name"))
      .def("build", [](nn::Embedding& l) { l.build({DType::i32, {}}); })
      .def(
          "call", [](nn::Embedding& l, nb::handle ids) { return to_python(l.call(l.input_of(to_operand(ids)), false)); }, nb::arg("ids"))
      .def_prop_ro("embeddings", [](const nn::Embedding& l) { return l.embeddings(); });
}

}  // namespace

void bind_image(nb::module_& root) {
  bind_functions(root);
  nb::module_ m = nb::cast<nb::module_>(root.attr("nn"));
  bind_image_layers(m);
  bind_normalization_layers(m);
}

}  // namespace lamina::python
