// max_pool2d(x): the maximum of each window and its position in the image, which receives the gradient (max_pool2d_grad).
#include "kernels/max_pool2d.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

constexpr const char* kMaxPool2dName = "max_pool2d";

WindowAxis max_pool2d_axis(const MaxPool2dAttrs& a, const TensorType& x, int axis) {
  return window_axis(kMaxPool2dName, x, axis, a.window[size_t(axis)], a.strides, 1, a.padding, a.pads);
}

std::vector<TensorType> infer_max_pool2d(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<MaxPool2dAttrs>(call.attrs);
  const TensorType& x = call.in[0];
  require_numeric(kMaxPool2dName, x);
  require_image(kMaxPool2dName, "x", x);
  require_window(kMaxPool2dName, a.strides, {1, 1}, a.pads);
  if (a.window.size() != 2 || a.window[0] < 1 || a.window[1] < 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat(kMaxPool2dName, ": the window is [", ir::attr_text(a.window), "]"),
                                              .where = "argument 'window'",
                                              .why = "it has a height and a width, each at least 1",
                                              .fix = "pass 1 or more"});
  Shape shape = x.shape;
  for (int i : {0, 1}) {
    // Every window must cover a part of the image.
    if (a.padding == Padding::given && std::max(a.pads[size_t(2 * i)], a.pads[size_t(2 * i + 1)]) >= a.window[size_t(i)])
      throw Error(ErrorKind::invalid_argument, {.what = cat(kMaxPool2dName, ": padding as large as the window, ", a.window[size_t(i)]),
                                                .where = "argument 'pads'",
                                                .why = "a window with nothing of the image has no largest element",
                                                .fix = "pad by less than the window"});
    shape[size_t(1 + i)] = max_pool2d_axis(a, x, i).places;
    if (x.shape[size_t(1 + i)] == Dim(0) && shape[size_t(1 + i)] != Dim(0))
      throw Error(ErrorKind::invalid_argument, {.what = cat(kMaxPool2dName, ": ", x, " has no elements to choose from"),
                                                .where = "",
                                                .why = "every window has a largest element",
                                                .fix = "check the size before"});
  }
  return {{x.dtype, shape}, {DType::i64, shape}};
}

std::vector<TensorType> infer_max_pool2d_grad(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<MaxPool2dAttrs>(call.attrs);
  const TensorType &dy = call.in[0], &places = call.in[1];
  constexpr const char* op = "max_pool2d_grad";
  require_floating(op, dy);
  require_image(op, "dy", dy);
  if (places.dtype != DType::i64 || places.shape != dy.shape)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": places ", places, " for a gradient ", dy),
                                              .where = "",
                                              .why = "they are max_pool2d's second result",
                                              .fix = ""});
  const TensorType x{dy.dtype, a.shape};
  if (const TensorType y = infer_max_pool2d({call.attrs, std::span(&x, 1), {}})[0]; !(y == dy))
    throw does_not_fit(op, dy, y, "the gradient has the type of the pooling's result", "");
  return {x};
}

// Each image flattened to one axis.
Value flat(Graph& g, Value x) {
  const Shape s = g.type(x).shape;
  return reshape(g, x, {s[0], s[1] * s[2] * s[3]});
}

std::vector<Value> vjp_max_pool2d(const ir::VjpCall& call) {
  Graph& g = call.graph;
  if (!call.cotangents[0].valid()) return {Value{}};
  const TensorType type = g.type(call.inputs[0]);
  if (!is_floating(type.dtype)) return {Value{}};
  return {max_pool2d_grad(g, call.cotangents[0], call.results[1], type.shape, ir::attrs_of<MaxPool2dAttrs>(call.attrs))};
}
// The elements at these positions: the gradient with respect to dy.
Value at_places(Graph& g, Value dx, Value places) {
  return reshape(g, gather(g, flat(g, dx), flat(g, places), 1, 1), g.type(places).shape);
}
std::vector<Value> vjp_max_pool2d_grad(const ir::VjpCall& call) {
  return {at_places(call.graph, call.cotangents[0], call.inputs[1]), Value{}};
}

// Models are more images.
ir::Batched pooled_as_models(Graph& g, Value x, Dim models) {
  const Shape s = g.type(x).shape;
  return {reshape(g, x, {models, s[0] / models, s[1], s[2], s[3]}), true};
}
std::vector<ir::Batched> batch_max_pool2d(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const Value y = max_pool2d(g, models_as_images(g, call.inputs[0].value), ir::attrs_of<MaxPool2dAttrs>(call.attrs));
  return {pooled_as_models(g, y, call.size), pooled_as_models(g, {y.node, 1}, call.size)};
}
std::vector<ir::Batched> batch_grad(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const auto& a = ir::attrs_of<MaxPool2dAttrs>(call.attrs);
  const std::vector<Value> in = with_model_axes(g, call.inputs, call.size);
  Shape shape = a.shape;
  shape[0] = shape[0] * call.size;
  return {pooled_as_models(g, max_pool2d_grad(g, models_as_images(g, in[0]), models_as_images(g, in[1]), shape, a), call.size)};
}

kernels::cpu::PoolSizes pool_sizes(const MaxPool2dAttrs& a, const TensorType& x, const TensorType& y) {
  const std::vector<int64_t> in = numbers(x.shape), out = numbers(y.shape);
  return {.images = in[0],
          .height = in[1],
          .width = in[2],
          .channels = in[3],
          .out_height = out[1],
          .out_width = out[2],
          .window_height = a.window[0],
          .window_width = a.window[1],
          .stride_height = a.strides[0],
          .stride_width = a.strides[1],
          .before_height = max_pool2d_axis(a, x, 0).before,
          .before_width = max_pool2d_axis(a, x, 1).before};
}

template <On on>
Kernel kernel_max_pool2d(const ir::KernelRequest& request) {
  const auto sizes = pool_sizes(ir::attrs_of<MaxPool2dAttrs>(request.attrs), request.in[0], request.out[0]);
  return for_numeric(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, max_pool2d<T>)>(sizes); });
}
template <On on>
Kernel kernel_max_pool2d_grad(const ir::KernelRequest& request) {
  const auto sizes = pool_sizes(ir::attrs_of<MaxPool2dAttrs>(request.attrs), request.out[0], request.in[0]);
  return for_floating(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, max_pool2d_grad<T>)>(sizes); });
}

std::optional<ir::RowsRule> rows_max_pool2d(const ir::RowsCall& call) { return rows_of_images(call); }
std::optional<ir::RowsRule> rows_max_pool2d_grad(const ir::RowsCall& call) {
  std::optional<ir::RowsRule> rule = rows_of_images(call);
  if (rule) rule->attrs = attrs_with_shape<MaxPool2dAttrs>(call.attrs, rule->out[0]);
  return rule;
}

}  // namespace

constinit const ir::OpDef def::max_pool2d{
    .name = kMaxPool2dName,
    .inputs = 1,
    .parse_attrs = ir::Attrs<MaxPool2dAttrs>::parse,
    .infer = infer_max_pool2d,
    .vjp = vjp_max_pool2d,
    .batch = batch_max_pool2d,
    .rows = rows_max_pool2d,
    .cpu = kernel_max_pool2d<On::cpu>,
    .cuda = kernel_max_pool2d<On::gpu>,
    .doc = "the largest element under a window that walks over images [n,h,w,c], and its place in the image; the first of equal ones",
};

constinit const ir::OpDef def::max_pool2d_grad{
    .name = "max_pool2d_grad",
    .inputs = 2,
    .parse_attrs = ir::Attrs<MaxPool2dAttrs>::parse,
    .infer = infer_max_pool2d_grad,
    .vjp = vjp_max_pool2d_grad,
    .batch = batch_grad,
    .rows = rows_max_pool2d_grad,
    .cpu = kernel_max_pool2d_grad<On::cpu>,
    .cuda = kernel_max_pool2d_grad<On::gpu>,
    .doc = "max_pool2d's gradient by its images: the result's gradients, each at its place",
};

}  // namespace lamina::ops
