// max_pool2d(x): the largest element under a window, and where in its image it was. The gradient goes there, by scatter_add.
#include "kernels/max_pool2d.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

constexpr const char* kName = "max_pool2d";

WindowAxis axis_of(const MaxPool2dAttrs& a, const TensorType& x, int axis) {
  return window_axis(kName, x, axis, a.window[size_t(axis)], a.strides, 1, a.padding, a.pads);
}

std::vector<TensorType> infer(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<MaxPool2dAttrs>(call.attrs);
  const TensorType& x = call.in[0];
  require_numeric(kName, x);
  require_image(kName, "x", x);
  require_window(kName, a.strides, {1, 1}, a.pads);
  if (a.window.size() != 2 || a.window[0] < 1 || a.window[1] < 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat(kName, ": the window is [", ir::attr_text(a.window), "]"),
                                              .where = "argument 'window'",
                                              .why = "it has a height and a width, each at least 1",
                                              .fix = ""});
  Shape shape = x.shape;
  for (int i : {0, 1}) {
    // So that every window covers a part of the image.
    if (a.padding == Padding::given && std::max(a.pads[size_t(2 * i)], a.pads[size_t(2 * i + 1)]) >= a.window[size_t(i)])
      throw Error(ErrorKind::invalid_argument, {.what = cat(kName, ": padding as large as the window, ", a.window[size_t(i)]),
                                                .where = "argument 'pads'",
                                                .why = "a window with nothing of the image has no largest element",
                                                .fix = "pad by less than the window"});
    shape[size_t(1 + i)] = axis_of(a, x, i).places;
    if (x.shape[size_t(1 + i)] == Dim(0) && shape[size_t(1 + i)] != Dim(0))
      throw Error(ErrorKind::invalid_argument, {.what = cat(kName, ": ", x, " has no elements to choose from"), .where = "", .why = "", .fix = "check the size before"});
  }
  return {{x.dtype, shape}, {DType::i64, shape}};
}

// All of an image in one axis.
Value flat(Graph& g, Value x) {
  const Shape s = g.type(x).shape;
  return reshape(g, x, {s[0], s[1] * s[2] * s[3]});
}

std::vector<Value> vjp(const ir::VjpCall& call) {
  Graph& g = call.graph;
  if (!call.cotangents[0].valid()) return {Value{}};
  const TensorType type = g.type(call.inputs[0]);
  if (!is_floating(type.dtype)) return {Value{}};
  const Shape& s = type.shape;
  return {reshape(g, scatter_add(g, flat(g, call.cotangents[0]), flat(g, call.results[1]), {s[0], s[1] * s[2] * s[3]}, 1, 1), s)};
}

// Models are more images.
std::vector<ir::Batched> batch(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const Shape s = g.type(call.inputs[0].value).shape;
  const Value y = max_pool2d(g, reshape(g, call.inputs[0].value, {s[0] * s[1], s[2], s[3], s[4]}), ir::attrs_of<MaxPool2dAttrs>(call.attrs));
  std::vector<ir::Batched> out;
  for (int r : {0, 1}) {
    const Shape now = g.type({y.node, r}).shape;
    out.push_back({reshape(g, {y.node, r}, {s[0], s[1], now[1], now[2], now[3]}), true});
  }
  return out;
}

template <On on>
Kernel kernel(const ir::KernelRequest& request) {
  const auto& a = ir::attrs_of<MaxPool2dAttrs>(request.attrs);
  const TensorType& x = request.in[0];
  const std::vector<int64_t> in = numbers(x.shape), out = numbers(request.out[0].shape);
  const kernels::cpu::PoolSizes sizes{.images = in[0],
                                      .height = in[1],
                                      .width = in[2],
                                      .channels = in[3],
                                      .out_height = out[1],
                                      .out_width = out[2],
                                      .window_height = a.window[0],
                                      .window_width = a.window[1],
                                      .stride_height = a.strides[0],
                                      .stride_width = a.strides[1],
                                      .before_height = axis_of(a, x, 0).before,
                                      .before_width = axis_of(a, x, 1).before};
  return for_numeric(x.dtype, [&]<class T>() { return bind<LAMINA_ON(on, max_pool2d<T>)>(sizes); });
}

}  // namespace

constinit const ir::OpDef def::max_pool2d{
    .name = kName,
    .inputs = 1,
    .parse_attrs = ir::Attrs<MaxPool2dAttrs>::parse,
    .infer = infer,
    .vjp = vjp,
    .batch = batch,
    .cpu = kernel<On::cpu>,
    .cuda = kernel<On::gpu>,
    .doc = "the largest element under a window that walks over images [n,h,w,c], and its place in the image; the first of equal ones",
};

}  // namespace lamina::ops
