// conv2d(x, filters) over images [n, height, width, channels], and its gradients with respect to x and the filters. Each of the three is
// linear in both operands, and its gradients are the other two, so derivatives of any order are built from them.
#include "kernels/conv2d.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

const Conv2dAttrs& conv2d_attrs(const ir::AttrsBase& attrs) { return ir::attrs_of<Conv2dAttrs>(attrs); }

// The shape of y; x and w must fit.
TensorType result_of(const char* op, const TensorType& x, const TensorType& w, const Conv2dAttrs& a) {
  require_floating(op, x);
  require_image(op, "x", x);
  if (w.rank() != 4)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", w, " are no filters"),
                                              .where = "argument 'filters'",
                                              .why = "filters are [height, width, channels / groups, filters]",
                                              .fix = "reshape them to 4 dimensions"});
  require_same_dtype(op, x, w);
  require_window(op, a.strides, a.dilation, a.pads);
  if (a.groups < 1 || !w.shape[2].known() || !w.shape[3].known() || w.shape[3].number() % a.groups != 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", a.groups, " groups do not divide the filters ", w),
                                              .where = "argument 'groups'",
                                              .why = "each group has as many filters, the last dimension, as the others",
                                              .fix = "pass a divisor of the number of filters, 1 for ordinary convolution"});
  if (x.shape[3] != w.shape[2] * Dim(a.groups))
    throw does_not_fit(op, x, w,
                       a.groups == 1 ? cat("x has ", x.shape[3], " channels, the filters take ", w.shape[2])
                                     : cat("x has ", x.shape[3], " channels, ", a.groups, " groups of filters take ", w.shape[2], " each"),
                       "pass filters [height, width, channels / groups, filters]");
  TensorType y{x.dtype, {x.shape[0], {}, {}, w.shape[3]}};
  for (int i : {0, 1})
    y.shape[size_t(1 + i)] = window_axis(op, x, i, w.shape[size_t(i)], a.strides, a.dilation[size_t(i)], a.padding, a.pads).places;
  return y;
}

// A gradient's shape attribute may come from a file.
void require_gradient(const char* op, const Shape& shape, const TensorType& dy, const TensorType& y) {
  if (shape.size() != 4)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": the shape [", text(shape), "] has ", shape.size(), " dimensions"),
                                              .where = "argument 'shape'",
                                              .why = "it has 4",
                                              .fix = ""});
  if (dy.shape != y.shape) throw does_not_fit(op, dy, y, "the gradient has the shape of the convolution's result", "");
}

std::vector<TensorType> infer_conv(const ir::InferCall& call) {
  return {result_of("conv2d", call.in[0], call.in[1], conv2d_attrs(call.attrs))};
}
std::vector<TensorType> infer_conv2d_grad_input(const ir::InferCall& call) {
  const char* op = "conv2d_grad_input";
  const Conv2dAttrs& a = conv2d_attrs(call.attrs);
  const TensorType x{call.in[0].dtype, a.shape};
  require_gradient(op, a.shape, call.in[0], result_of(op, x, call.in[1], a));
  return {x};
}
std::vector<TensorType> infer_filter(const ir::InferCall& call) {
  const char* op = "conv2d_grad_filter";
  const Conv2dAttrs& a = conv2d_attrs(call.attrs);
  const TensorType w{call.in[0].dtype, a.shape};
  require_same_dtype(op, call.in[0], call.in[1]);
  require_gradient(op, a.shape, call.in[1], result_of(op, call.in[0], w, a));
  return {w};
}

std::vector<Value> vjp_conv(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const Conv2dAttrs a = conv2d_attrs(call.attrs);
  const Value x = call.inputs[0], w = call.inputs[1], dy = call.cotangents[0];
  return {conv2d_grad_input(g, dy, w, g.type(x).shape, a), conv2d_grad_filter(g, x, dy, g.type(w).shape, a)};
}
std::vector<Value> vjp_input(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const Conv2dAttrs a = conv2d_attrs(call.attrs);
  const Value dy = call.inputs[0], w = call.inputs[1], ddx = call.cotangents[0];
  return {conv2d(g, ddx, w, a), conv2d_grad_filter(g, ddx, dy, g.type(w).shape, a)};
}
std::vector<Value> vjp_filter(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const Conv2dAttrs a = conv2d_attrs(call.attrs);
  const Value x = call.inputs[0], dy = call.inputs[1], ddw = call.cotangents[0];
  return {conv2d_grad_input(g, dy, ddw, g.type(x).shape, a), conv2d(g, x, ddw, a)};
}

// --- batching: models with shared filters become more images; otherwise they become groups of channels ---

// What models_as_images undoes.
Value images_as_models(Graph& g, Value x, Dim models, Dim images) {
  const Shape s = g.type(x).shape;
  return reshape(g, x, {models, images, s[1], s[2], s[3]});
}
// [m, a, b, c, d] as [a, b, c, m d], and back, for images and filters.
Value models_as_channels(Graph& g, Value x) {
  const Shape s = g.type(x).shape;
  return reshape(g, transpose(g, x, {1, 2, 3, 0, 4}), {s[1], s[2], s[3], s[0] * s[4]});
}
Value channels_as_models(Graph& g, Value x, Dim models) {
  const Shape s = g.type(x).shape;
  return transpose(g, reshape(g, x, {s[0], s[1], s[2], models, s[3] / models}), {3, 0, 1, 2, 4});
}
Conv2dAttrs with_groups(Conv2dAttrs a, Dim models) {
  a.groups *= models.number();
  return a;
}

std::vector<ir::Batched> batch_conv(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const Conv2dAttrs a = conv2d_attrs(call.attrs);
  const ir::Batched &x = call.inputs[0], &w = call.inputs[1];
  if (!w.batched) {
    const Dim images = g.type(x.value).shape[1];
    return {{images_as_models(g, conv2d(g, models_as_images(g, x.value), w.value, a), call.size, images), true}};
  }
  const Value filters = models_as_channels(g, w.value);
  if (!x.batched && a.groups == 1) return {{channels_as_models(g, conv2d(g, x.value, filters, a), call.size), true}};
  const Value images = models_as_channels(g, with_model_axis(g, x, call.size));
  return {{channels_as_models(g, conv2d(g, images, filters, with_groups(a, call.size)), call.size), true}};
}
std::vector<ir::Batched> batch_input(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const Conv2dAttrs a = conv2d_attrs(call.attrs);
  const ir::Batched &dy = call.inputs[0], &w = call.inputs[1];
  Shape shape = a.shape;
  if (!w.batched) {
    shape[0] = shape[0] * call.size;
    return {{images_as_models(g, conv2d_grad_input(g, models_as_images(g, dy.value), w.value, shape, a), call.size, a.shape[0]), true}};
  }
  shape[3] = shape[3] * call.size;
  const Value gradients = models_as_channels(g, with_model_axis(g, dy, call.size)), filters = models_as_channels(g, w.value);
  return {{channels_as_models(g, conv2d_grad_input(g, gradients, filters, shape, with_groups(a, call.size)), call.size), true}};
}
std::vector<ir::Batched> batch_filter(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const Conv2dAttrs a = conv2d_attrs(call.attrs);
  const Value x = models_as_channels(g, with_model_axis(g, call.inputs[0], call.size));
  const Value dy = models_as_channels(g, with_model_axis(g, call.inputs[1], call.size));
  Shape shape = a.shape;
  shape[3] = shape[3] * call.size;
  return {{channels_as_models(g, conv2d_grad_filter(g, x, dy, shape, with_groups(a, call.size)), call.size), true}};
}

// --- kernels ---

kernels::cpu::ConvSizes conv2d_sizes(const char* op, const TensorType& x, const TensorType& w, const TensorType& y, const Conv2dAttrs& a) {
  auto length = [](const TensorType& t, size_t axis) { return t.shape[axis].number(); };
  auto before = [&](int i) {
    return window_axis(op, x, i, w.shape[size_t(i)], a.strides, a.dilation[size_t(i)], a.padding, a.pads).before;
  };
  return {.images = length(x, 0),
          .height = length(x, 1),
          .width = length(x, 2),
          .channels = length(x, 3),
          .out_height = length(y, 1),
          .out_width = length(y, 2),
          .filters = length(y, 3),
          .window_height = length(w, 0),
          .window_width = length(w, 1),
          .stride_height = a.strides[0],
          .stride_width = a.strides[1],
          .dilation_height = a.dilation[0],
          .dilation_width = a.dilation[1],
          .before_height = before(0),
          .before_width = before(1),
          .groups = a.groups};
}

template <On on>
Kernel kernel_conv(const ir::KernelRequest& request) {
  const auto sizes = conv2d_sizes("conv2d", request.in[0], request.in[1], request.out[0], conv2d_attrs(request.attrs));
  return for_floating(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, conv2d<T>)>(sizes); });
}
template <On on>
Kernel kernel_input(const ir::KernelRequest& request) {
  const auto sizes = conv2d_sizes("conv2d_grad_input", request.out[0], request.in[1], request.in[0], conv2d_attrs(request.attrs));
  return for_floating(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, conv2d_grad_input<T>)>(sizes); });
}
template <On on>
Kernel kernel_filter(const ir::KernelRequest& request) {
  const auto sizes = conv2d_sizes("conv2d_grad_filter", request.in[0], request.out[0], request.in[1], conv2d_attrs(request.attrs));
  return for_floating(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, conv2d_grad_filter<T>)>(sizes); });
}

std::optional<ir::RowsRule> rows_conv2d(const ir::RowsCall& call) { return rows_of_images(call, {1}); }
std::optional<ir::RowsRule> rows_conv2d_grad_input(const ir::RowsCall& call) {
  std::optional<ir::RowsRule> rule = rows_of_images(call, {1});
  if (rule) rule->attrs = attrs_with_shape<Conv2dAttrs>(call.attrs, rule->out[0]);
  return rule;
}
std::optional<ir::RowsRule> rows_conv2d_grad_filter(const ir::RowsCall& call) {
  std::optional<ir::RowsRule> rule = call.cuts[0].whole() && call.cuts[1].whole() ? std::nullopt : rows_of_images(call);
  if (rule) rule->out = {{}}, rule->leaves = ir::RowsRule::Leaves::added;
  return rule;
}

}  // namespace

constinit const ir::OpDef def::conv2d{
    .name = "conv2d",
    .inputs = 2,
    .parse_attrs = ir::Attrs<Conv2dAttrs>::parse,
    .infer = infer_conv,
    .vjp = vjp_conv,
    .batch = batch_conv,
    .rows = rows_conv2d,
    .cpu = kernel_conv<On::cpu>,
    .cuda = kernel_conv<On::gpu>,
    .doc =
        "x [n,h,w,c] and filters [a,b,c/groups,o] -> [n,h',w',o], with h' = (h + padding - ((a - 1) dilation + 1)) / stride + 1, "
        "rounded down.\n\n"
        "strides and dilation: a number, or (rows, columns). padding: \"valid\" (none), \"same\" (ceil(h / stride) places), a "
        "number,\n"
        "(rows, columns) or ((above, below), (left, right)). groups = c gives each channel filters of its own.\n"
        "Raises InvalidArgument for sizes that do not fit, TypeMismatch for dtypes that differ or are no floating point.",
};

constinit const ir::OpDef def::conv2d_grad_filter{
    .name = "conv2d_grad_filter",
    .inputs = 2,
    .parse_attrs = ir::Attrs<Conv2dAttrs>::parse,
    .infer = infer_filter,
    .vjp = vjp_filter,
    .batch = batch_filter,
    .rows = rows_conv2d_grad_filter,
    .cpu = kernel_filter<On::cpu>,
    .cuda = kernel_filter<On::gpu>,
    .doc = "conv2d's gradient by its filters, from the images and the result's gradient",
};

constinit const ir::OpDef def::conv2d_grad_input{
    .name = "conv2d_grad_input",
    .inputs = 2,
    .parse_attrs = ir::Attrs<Conv2dAttrs>::parse,
    .infer = infer_conv2d_grad_input,
    .vjp = vjp_input,
    .batch = batch_input,
    .rows = rows_conv2d_grad_input,
    .cpu = kernel_input<On::cpu>,
    .cuda = kernel_input<On::gpu>,
    .doc = "conv2d's gradient by its images, from the result's gradient and the filters; the transposed convolution",
};

}  // namespace lamina::ops
