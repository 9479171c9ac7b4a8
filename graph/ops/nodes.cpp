// The functions of ops.h and of the headers that it includes. Here, not in the headers: most sources include them.
#include "graph/ops/ops.h"

namespace lamina::ops {

#define LAMINA_NODE_1(name) \
  Value name(Graph& g, Value x) { return g.add(def::name, {x}); }
#define LAMINA_NODE_2(name) \
  Value name(Graph& g, Value a, Value b) { return g.add(def::name, {a, b}); }
#define LAMINA_NODE_3(name) \
  Value name(Graph& g, Value a, Value b, Value c) { return g.add(def::name, {a, b, c}); }
#define ELEMENTWISE(name, operands, ...) LAMINA_NODE_##operands(name)
#include "kernels/shared/elementwise_ops.inc"
#undef LAMINA_NODE_1
#undef LAMINA_NODE_2
#undef LAMINA_NODE_3

Value astype(Graph& g, Value x, DType dtype) {
  return g.type(x).dtype == dtype ? x : g.add(def::astype, ir::make_attrs(DTypeAttrs{dtype}), {x});
}
Value fused_elementwise(Graph& g, ir::GraphRef region, std::vector<Value> inputs) {
  return g.add(def::fused_elementwise, nullptr, std::move(inputs), {std::move(region)});
}
Value constant(Graph& g, ir::Literal value) { return g.add_constant(std::move(value)); }
Value scalar(Graph& g, DType dtype, double value) { return g.add_constant(ir::Literal::filled({dtype, {}}, value)); }
Value as_real(Graph& g, Value z) { return g.add(def::as_real, {z}); }
Value as_complex(Graph& g, Value pairs) { return g.add(def::as_complex, {pairs}); }
Value iota(Graph& g, const TensorType& type, int axis) { return g.add(def::iota, ir::make_attrs(IotaAttrs{type, axis}), {}); }
Value read(Graph& g, int resource) {
  return g.add(def::read, ir::make_attrs(ir::ResourceAttrs{resource, g.resources.at(size_t(resource)).type}), {});
}
void assign(Graph& g, int resource, Value value) {
  g.add(def::assign, ir::make_attrs(ir::ResourceAttrs{resource, g.resources.at(size_t(resource)).type}), {value});
}
Value matmul(Graph& g, Value a, Value b, bool transpose_a, bool transpose_b, Precision precision) {
  return g.add(def::matmul, ir::make_attrs(MatmulAttrs{transpose_a, transpose_b, precision}), {a, b});
}
Value dense(Graph& g, Value x, Value w, Value b, section::Activation activation, float alpha, Precision precision) {
  return g.add(def::dense, ir::make_attrs(ActivationAttrs{activation, alpha, precision}),
               b.valid() ? std::vector{x, w, b} : std::vector{x, w});
}
Value dense_grad_input(Graph& g, Value dz, Value w, Value y, section::Activation activation, float alpha, Precision precision) {
  return g.add(def::dense_grad_input, ir::make_attrs(ActivationAttrs{activation, alpha, precision}),
               y.valid() ? std::vector{dz, w, y} : std::vector{dz, w});
}
Value dense_update(Graph& g, Value x, Value dz, std::vector<Value> weight_extras, std::vector<Value> bias_extras,
                   ir::GraphRef weight_region, ir::GraphRef bias_region, Precision precision) {
  std::vector<Value> in{x, dz};
  in.insert(in.end(), weight_extras.begin(), weight_extras.end());
  in.insert(in.end(), bias_extras.begin(), bias_extras.end());
  return g.add(def::dense_update, ir::make_attrs(DenseUpdateAttrs{int64_t(weight_extras.size()), precision}), std::move(in),
               {std::move(weight_region), std::move(bias_region)});
}
Value sum(Graph& g, Value x, AxesOrAll axes, bool keepdims) {
  return g.add(def::sum, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
Value mean(Graph& g, Value x, AxesOrAll axes, bool keepdims) {
  return g.add(def::mean, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
Value max(Graph& g, Value x, AxesOrAll axes, bool keepdims) {
  return g.add(def::max, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
Value min(Graph& g, Value x, AxesOrAll axes, bool keepdims) {
  return g.add(def::min, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
Value prod(Graph& g, Value x, AxesOrAll axes, bool keepdims) {
  return g.add(def::prod, ir::make_attrs(ReduceAttrs{std::move(axes), keepdims}), {x});
}
Value cumsum(Graph& g, Value x, int axis, bool reverse, bool exclusive) {
  return g.add(def::cumsum, ir::make_attrs(CumsumAttrs{axis, reverse, exclusive}), {x});
}
Value argmax(Graph& g, Value x, int axis, bool keepdims) { return g.add(def::argmax, ir::make_attrs(ArgmaxAttrs{axis, keepdims}), {x}); }
Value reshape(Graph& g, Value x, Shape shape) {
  return g.type(x).shape == shape ? x : g.add(def::reshape, ir::make_attrs(ShapeAttrs{std::move(shape)}), {x});
}
Value broadcast_to(Graph& g, Value x, Shape shape) {
  return g.type(x).shape == shape ? x : g.add(def::broadcast_to, ir::make_attrs(ShapeAttrs{std::move(shape)}), {x});
}
Value transpose(Graph& g, Value x, std::vector<int64_t> axes) {
  return g.add(def::transpose, ir::make_attrs(TransposeAttrs{std::move(axes)}), {x});
}
Value slice(Graph& g, Value x, std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int64_t> step) {
  return g.add(def::slice, ir::make_attrs(SliceAttrs{std::move(begin), std::move(end), std::move(step), {}, {}}), {x});
}
Value pad_slice(Graph& g, Value x, Shape shape, std::vector<int64_t> begin, std::vector<int64_t> step) {
  return g.add(def::pad_slice, ir::make_attrs(PadSliceAttrs{std::move(shape), std::move(begin), std::move(step), {}}), {x});
}
Value concat(Graph& g, std::vector<Value> parts, int axis) { return g.add(def::concat, ir::make_attrs(AxisAttrs{axis}), std::move(parts)); }
Value gather(Graph& g, Value x, Value indices, int axis, int batch_axes) {
  return g.add(def::gather, ir::make_attrs(GatherAttrs{axis, batch_axes}), {x, indices});
}
Value scatter_add(Graph& g, Value updates, Value indices, Shape shape, int axis, int batch_axes) {
  return g.add(def::scatter_add, ir::make_attrs(ScatterAttrs{std::move(shape), axis, batch_axes}), {updates, indices});
}
Value one_hot(Graph& g, Value labels, int64_t classes, DType dtype) {
  return g.add(def::one_hot, ir::make_attrs(OneHotAttrs{classes, dtype}), {labels});
}
Value softmax(Graph& g, Value x, int axis) { return g.add(def::softmax, ir::make_attrs(AxisAttrs{axis}), {x}); }
Value log_softmax(Graph& g, Value x, int axis) { return g.add(def::log_softmax, ir::make_attrs(AxisAttrs{axis}), {x}); }
Value sparse_cross_entropy(Graph& g, Value logits, Value labels) { return g.add(def::sparse_cross_entropy, {logits, labels}); }
Value dropout(Graph& g, Value x, Value state, float rate) { return g.add(def::dropout, ir::make_attrs(DropoutAttrs{rate}), {x, state}); }
Value random_uniform(Graph& g, Value state, const TensorType& type, double low, double high) {
  return g.add(def::random_uniform, ir::make_attrs(RandomAttrs{type, low, high}), {state});
}
Value random_normal(Graph& g, Value state, const TensorType& type, double mean, double deviation) {
  return g.add(def::random_normal, ir::make_attrs(RandomAttrs{type, mean, deviation}), {state});
}

// --- draws.h ---
Value random_integers(Graph& g, Value state, const TensorType& type, int64_t low, int64_t high) {
  return g.add(def::random_integers, ir::make_attrs(RandomIntegersAttrs{type, low, high}), {state});
}
Value random_truncated_normal(Graph& g, Value state, const TensorType& type, double mean, double deviation, double low, double high) {
  return g.add(def::random_truncated_normal, ir::make_attrs(TruncatedNormalAttrs{type, mean, deviation, low, high}), {state});
}

// --- image.h ---
Value conv2d(Graph& g, Value x, Value filters, Conv2dAttrs attrs) {
  attrs.shape.clear();
  return g.add(def::conv2d, ir::make_attrs(std::move(attrs)), {x, filters});
}
Value conv2d_grad_input(Graph& g, Value dy, Value filters, Shape shape, Conv2dAttrs attrs) {
  attrs.shape = std::move(shape);
  return g.add(def::conv2d_grad_input, ir::make_attrs(std::move(attrs)), {dy, filters});
}
Value conv2d_grad_filter(Graph& g, Value x, Value dy, Shape shape, Conv2dAttrs attrs) {
  attrs.shape = std::move(shape);
  return g.add(def::conv2d_grad_filter, ir::make_attrs(std::move(attrs)), {x, dy});
}
Value max_pool2d(Graph& g, Value x, MaxPool2dAttrs attrs) {
  attrs.shape.clear();
  return g.add(def::max_pool2d, ir::make_attrs(std::move(attrs)), {x});
}
Value max_pool2d_grad(Graph& g, Value dy, Value places, Shape shape, MaxPool2dAttrs attrs) {
  attrs.shape = std::move(shape);
  return g.add(def::max_pool2d_grad, ir::make_attrs(std::move(attrs)), {dy, places});
}

// --- indexing.h ---
Value ravel_index(Graph& g, std::vector<Value> places, Shape lengths) {
  return g.add(def::ravel_index, ir::make_attrs(RavelIndexAttrs{std::move(lengths)}), std::move(places));
}
Value scatter(Graph& g, Value updates, Value indices, Value x, ScatterMode mode, int batch_axes) {
  return g.add(def::scatter, ir::make_attrs(ScatterIntoAttrs{mode, batch_axes}), {updates, indices, x});
}
Value nonzero(Graph& g, Value condition) { return g.add(def::nonzero, {condition}); }

// --- reporting.h ---
void print(Graph& g, std::vector<Value> values, PrintAttrs attrs) {
  g.add(def::print, ir::make_attrs(std::move(attrs)), std::move(values));
}
void check(Graph& g, Value condition, std::vector<Value> values, CheckAttrs attrs) {
  values.insert(values.begin(), condition);
  g.add(def::check, ir::make_attrs(std::move(attrs)), std::move(values));
}
Value check_numerics(Graph& g, Value x, std::string message) {
  return g.add(def::check_numerics, ir::make_attrs(NumericsAttrs{std::move(message)}), {x});
}

// --- sorting.h ---
Value sort(Graph& g, Value x, int axis, bool descending) { return g.add(def::sort, ir::make_attrs(SortAttrs{axis, descending}), {x}); }
Value argsort(Graph& g, Value x, int axis, bool descending) {
  return g.add(def::argsort, ir::make_attrs(SortAttrs{axis, descending}), {x});
}
Value top_k(Graph& g, Value x, int64_t k) { return g.add(def::top_k, ir::make_attrs(TopKAttrs{k}), {x}); }
Value searchsorted(Graph& g, Value sorted, Value values, bool right) {
  return g.add(def::searchsorted, ir::make_attrs(SearchAttrs{right}), {sorted, values});
}
Value unique(Graph& g, Value x) { return g.add(def::unique, {x}); }

}  // namespace lamina::ops
