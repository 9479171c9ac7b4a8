// Bindings for the layers over sequences: recurrent ones and attention.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/nn/attention.h"
#include "graph/nn/recurrent.h"
#include "graph/nn/shape_layers.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/nn.h"

namespace lamina::python {
namespace {

Tensor tensor_or_none(nb::handle value) { return value.is_none() ? Tensor() : to_tensor(value); }

nn::Recurrent::Kind kind_of(const std::string& name) {
  using Kind = nn::Recurrent::Kind;
  return name == "lstm" ? Kind::lstm : name == "gru" ? Kind::gru : Kind::simple;
}

void bind_recurrent(nb::module_& m) {
  nb::class_<nn::Recurrent> c(m, "Recurrent", "The computation of lm.nn.SimpleRNN, LSTM and GRU.");
  bind_autocast(c);
  c.def(
       "__init__",
       [](nn::Recurrent* self, const std::string& kind, int64_t units, nb::handle activation, nb::handle recurrent_activation,
          bool use_bias, nb::handle kernel, nb::handle recurrent, nb::handle bias, bool unit_forget_bias, bool reset_after, bool backwards,
          nb::handle dtype, const std::string& name) {
         new (self) nn::Recurrent(
             kind_of(kind), units,
             {to_activation(activation), to_activation(recurrent_activation), use_bias, to_initializer(kernel), to_initializer(recurrent),
              to_initializer(bias), unit_forget_bias, reset_after, false, backwards, to_dtype(dtype), name});
       },
       nb::arg("kind"), nb::arg("units"), nb::arg("activation").none(), nb::arg("recurrent_activation").none(), nb::arg("use_bias"),
       nb::arg("kernel_initializer"), nb::arg("recurrent_initializer"), nb::arg("bias_initializer"), nb::arg("unit_forget_bias"),
       nb::arg("reset_after"), nb::arg("go_backwards"), nb::arg("dtype"), nb::arg("name"))
      .def(
          "build", [](nn::Recurrent& l, nb::handle shape) { l.build({l.options().dtype, to_shape(shape, true)}); }, nb::arg("input_shape"))
      .def(
          "run",
          [](const nn::Recurrent& l, nb::handle x, nb::handle mask, nb::handle state, bool sequence) {
            std::vector<Tensor> first;
            if (!state.is_none())
              for (const nb::object& part : elements_of(state)) first.push_back(l.input_of(to_operand(part)));
            const nn::Recurrent::Result result = l.run(l.input_of(to_operand(x)), tensor_or_none(mask), first, sequence);
            return nb::make_tuple(to_python(result.sequence), to_list(result.state));
          },
          nb::arg("x"), nb::arg("mask").none(), nb::arg("state").none(), nb::arg("sequence"),
          "(outputs of all steps, or None; the list of final states).")
      .def_prop_ro("kernel", [](const nn::Recurrent& l) { return l.kernel(); })
      .def_prop_ro("recurrent_kernel", [](const nn::Recurrent& l) { return l.recurrent_kernel(); })
      .def_prop_ro("bias", [](const nn::Recurrent& l) { return l.bias(); });
}

void bind_attention(nb::module_& m) {
  nb::class_<nn::MultiHeadAttention> c(m, "MultiHeadAttention", "The computation of lm.nn.MultiHeadAttention.");
  bind_autocast(c);
  c.def(
       "__init__",
       [](nn::MultiHeadAttention* self, int64_t heads, int64_t key_dim, int64_t value_dim, int64_t output_size, double dropout,
          bool use_bias, nb::handle kernel, nb::handle bias, nb::handle dtype, const std::string& name) {
         new (self) nn::MultiHeadAttention(
             heads, key_dim,
             {value_dim, output_size, dropout, use_bias, to_initializer(kernel), to_initializer(bias), to_dtype(dtype), name});
       },
       nb::arg("num_heads"), nb::arg("key_dim"), nb::arg("value_dim"), nb::arg("output_size"), nb::arg("dropout"), nb::arg("use_bias"),
       nb::arg("kernel_initializer"), nb::arg("bias_initializer"), nb::arg("dtype"), nb::arg("name"))
      .def(
          "build",
          [](nn::MultiHeadAttention& l, nb::handle query, nb::handle value, nb::handle key) {
            const DType dtype = l.options().dtype;
            l.build_for_both({dtype, to_shape(query, true)}, {dtype, to_shape(value, true)}, {dtype, to_shape(key, true)});
          },
          nb::arg("query_shape"), nb::arg("value_shape"), nb::arg("key_shape"))
      .def(
          "attend",
          [](const nn::MultiHeadAttention& l, nb::handle query, nb::handle value, nb::handle key, nb::handle mask, bool causal,
             bool training) {
            const nn::MultiHeadAttention::Attended result =
                l.attend(l.input_of(to_operand(query)), l.input_of(to_operand(value)),
                         key.is_none() ? Tensor() : l.input_of(to_operand(key)), tensor_or_none(mask), causal, training);
            return nb::make_tuple(to_python(result.output), to_python(result.weights));
          },
          nb::arg("query"), nb::arg("value"), nb::arg("key").none(), nb::arg("mask").none(), nb::arg("causal"), nb::arg("training"))
      .def(
          "kernel", [](const nn::MultiHeadAttention& l, size_t part) { return l.kernel(part).if_made(); }, nb::arg("part"))
      .def("bias", [](const nn::MultiHeadAttention& l, size_t part) { return l.bias(part).if_made(); }, nb::arg("part"));
}

}  // namespace

void bind_sequence_layers(nb::module_& root) {
  nb::module_ m = nb::cast<nb::module_>(root.attr("nn"));
  bind_recurrent(m);
  bind_attention(m);
  nb::class_<nn::Reshape>(m, "Reshape", "The computation of lm.nn.Reshape.")
      .def(
          "__init__", [](nn::Reshape* self, nb::handle shape, const std::string& name) { new (self) nn::Reshape(to_axes(shape), name); },
          nb::arg("target_shape"), nb::arg("name"))
      .def("call", [](nn::Reshape& l, nb::handle x) { return to_python(l.call(l.input_of(to_operand(x)), false)); }, nb::arg("x"));
}

}  // namespace lamina::python
