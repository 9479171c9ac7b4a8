// batch_norm_train(x, gamma, beta) of f32 or f64: (x - mean) / sqrt(variance + epsilon) * gamma + beta with the mean and variance of x
// [..., c] over all axes but the last; returns these too. Its gradient is an op as well. Without a library both decompose into other ops.
#include "graph/ops/batch_norm.h"

#include <limits>

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/region_checks.h"
#include "graph/ops/regions.h"
#include "kernels/batch_norm.h"
#include "runtime/device/library_work.h"

namespace lamina::ops {
namespace {

constexpr const char *kName = "batch_norm_train", *kGradName = "batch_norm_train_grad";

const BatchNormAttrs& batch_norm_attrs(const ir::AttrsBase& attrs) { return ir::attrs_of<BatchNormAttrs>(attrs); }

void require_batch_norm_inputs(const char* op, const ir::InferCall& call, int64_t wanted) {
  if (int64_t(call.in.size()) == wanted) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": it has ", call.in.size(), " inputs"),
                                            .where = "",
                                            .why = cat("with these attributes it takes ", wanted),
                                            .fix = ""});
}
// x's channels; all types in `of_channels` must be [channels].
Dim require_channels(const char* op, const TensorType& x, std::span<const TensorType> of_channels) {
  require_floating(op, x);
  if (is_half(x.dtype))
    throw Error(ErrorKind::type, {.what = cat(op, ": x is ", x),
                                  .where = "argument 'x'",
                                  .why = "statistics of half types are made in f32",
                                  .fix = "convert it first: x.astype('float32')"});
  if (x.rank() < 2)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", x, " has no rows of channels"),
                                              .where = "argument 'x'",
                                              .why = "it is [..., channels], of at least 2 dimensions",
                                              .fix = "reshape it"});
  const TensorType wanted{x.dtype, {x.shape.back()}};
  for (const TensorType& t : of_channels) {
    require_same_dtype(op, x, t);
    if (!(t == wanted)) throw does_not_fit(op, x, t, cat("there is one number for each of ", x.shape.back(), " channels"), "");
  }
  return x.shape.back();
}

std::vector<TensorType> infer_batch_norm(const ir::InferCall& call) {
  const BatchNormAttrs& a = batch_norm_attrs(call.attrs);
  require_batch_norm_inputs(kName, call, 1 + a.scale + a.center);
  const TensorType of_channels{call.in[0].dtype, {require_channels(kName, call.in[0], call.in.subspan(1))}};
  return {call.in[0], of_channels, of_channels};
}
std::vector<TensorType> infer_batch_norm_grad(const ir::InferCall& call) {
  const BatchNormAttrs& a = batch_norm_attrs(call.attrs);
  require_batch_norm_inputs(kGradName, call, 4 + a.scale);
  const TensorType &x = call.in[0], &dy = call.in.back();
  const TensorType of_channels{x.dtype, {require_channels(kGradName, x, call.in.subspan(1, call.in.size() - 2))}};
  if (!(dy == x)) throw does_not_fit(kGradName, dy, x, "the gradient has the type of the result, which is x's", "");
  std::vector<TensorType> out{x};
  out.resize(size_t(1 + a.scale + a.center), of_channels);
  return out;
}

std::vector<int64_t> batch_norm_rows(const TensorType& x) {
  std::vector<int64_t> axes;
  for (int64_t a = 0; a + 1 < int64_t(x.rank()); ++a) axes.push_back(a);
  return axes;
}
// [c] as [1, ..., 1, c].
Value with_rows(Graph& g, Value v, const TensorType& x) {
  Shape shape(x.rank(), Dim(1));
  shape.back() = x.shape.back();
  return reshape(g, v, shape);
}
Value inverse_deviation(Graph& g, Value variance, double epsilon) {
  return rsqrt(g, add(g, variance, scalar(g, g.type(variance).dtype, epsilon)));
}

// The nodes of moments and batch_norm (frontend/normalize.h), in the same order.
std::vector<Value> decompose_batch_norm(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  const BatchNormAttrs& a = batch_norm_attrs(attrs);
  const Value x = in[0];
  const TensorType type = g.type(x);
  const Value center = mean(g, x, batch_norm_rows(type), true);
  const Value variance = mean(g, square(g, sub(g, x, center)), batch_norm_rows(type));
  const Value means = reshape(g, center, {type.shape.back()});
  Value slope = inverse_deviation(g, variance, a.epsilon);
  if (a.scale) slope = mul(g, slope, in[1]);
  Value y = mul(g, sub(g, x, means), slope);
  if (a.center) y = add(g, y, in.back());
  return {y, means, variance};
}

// The gradient of x through mean(x) over the rows.
Value through_mean(Graph& g, Value x, bool keepdims, Value cotangent) {
  const ir::Attrs<ReduceAttrs> attrs({batch_norm_rows(g.type(x)), keepdims});
  return def::mean.vjp({g, attrs, std::span(&x, 1), {}, std::span(&cotangent, 1), {}})[0];
}

// The gradient of the nodes above, operation by operation in reverse.
std::vector<Value> decompose_grad(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  const BatchNormAttrs& a = batch_norm_attrs(attrs);
  const Value x = in[0], means = in[in.size() - 3], variance = in[in.size() - 2], dy = in.back();
  const TensorType type = g.type(x);
  const Shape channels{type.shape.back()};
  const Value inverse = inverse_deviation(g, variance, a.epsilon), slope = a.scale ? mul(g, inverse, in[1]) : inverse;
  std::vector<Value> out{Value{}};

  // y = (x - mean) slope + beta
  const Value dbeta = a.center ? sum_to(g, dy, channels) : Value{};
  Value dx = mul(g, dy, slope);
  const Value dslope = sum_to(g, mul(g, dy, sub(g, x, means)), channels);
  const Value dmean = sum_to(g, neg(g, dx), channels);
  // slope = rsqrt(variance + epsilon) gamma
  const Value dinverse = a.scale ? mul(g, dslope, in[1]) : dslope;
  if (a.scale) out.push_back(mul(g, dslope, inverse));
  if (a.center) out.push_back(dbeta);
  const Value half = mul(g, dinverse, scalar(g, type.dtype, -0.5)), cube = mul(g, inverse, square(g, inverse));
  const Value dvariance = mul(g, half, cube);
  // variance = mean((x - mean)^2)
  const Value center = with_rows(g, means, type), deviation = sub(g, x, center);
  const Value dsquare = through_mean(g, x, false, dvariance);
  const Value ddeviation = mul(g, dsquare, add(g, deviation, deviation));
  dx = add(g, dx, ddeviation);
  // mean
  const Value direct = with_rows(g, dmean, type), through_variance = sum_to(g, neg(g, ddeviation), g.type(center).shape);
  out[0] = add(g, dx, through_mean(g, x, true, add(g, direct, through_variance)));
  return out;
}

// The op's nodes as a region.
using Decompose = std::vector<Value> (*)(Graph&, const ir::AttrsBase&, std::span<const Value>, std::span<const ir::GraphRef>);
template <class Inputs>
ir::GraphRef nodes_of(Decompose f, const ir::AttrsBase& attrs, const Inputs& types, const Graph::Place& place) {
  auto region = std::make_shared<Graph>();
  region->place = place;
  for (const TensorType& t : types) region->add_input(t);
  region->outputs = f(*region, attrs, region->inputs, {});
  return region;
}

template <Decompose f>
std::vector<Value> vjp_of_nodes(const char* op, const ir::VjpCall& call) {
  const std::vector<TensorType> types = types_of(call.graph, call.inputs);
  const std::vector<uint8_t> wanted(types.size(), true);
  const ir::GraphRef gradient = transforms_of(op, call.transforms).gradient(*nodes_of(f, call.attrs, types, call.graph.place), wanted);
  std::vector<Value> in(call.inputs.begin(), call.inputs.end());
  add_cotangents(call, 0, call.results.size(), in);
  return inline_region(call.graph, *gradient, in);
}

std::vector<Value> vjp_batch_norm(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const BatchNormAttrs& a = batch_norm_attrs(call.attrs);
  if (call.cotangents[1].valid() || call.cotangents[2].valid()) return vjp_of_nodes<decompose_batch_norm>(kName, call);
  std::vector<Value> in{call.inputs[0]};
  if (a.scale) in.push_back(call.inputs[1]);
  in.insert(in.end(), {call.results[1], call.results[2], call.cotangents[0]});
  const Value dx = g.add(def::batch_norm_train_grad, ir::make_attrs(BatchNormAttrs(a)), std::move(in));
  return results_from(dx, call.inputs.size());
}
std::vector<Value> vjp_batch_norm_grad(const ir::VjpCall& call) { return vjp_of_nodes<decompose_grad>(kGradName, call); }

template <Decompose f>
std::vector<ir::Batched> batch_batch_norm(const ir::BatchCall& call) {
  std::vector<TensorType> types;
  std::vector<Value> values;
  std::vector<uint8_t> in;
  for (const ir::Batched& b : call.inputs) {
    TensorType type = call.graph.type(b.value);
    if (b.batched) type.shape.erase(type.shape.begin());
    types.push_back(type), values.push_back(b.value), in.push_back(b.batched);
  }
  const ir::GraphRef one = nodes_of(f, call.attrs, types, call.graph.place);
  std::vector<uint8_t> out(one->outputs.size());
  const ir::GraphRef all = transforms_of(kName, call.transforms).batch(*one, in, call.size, out);
  const std::vector<Value> results = inline_region(call.graph, *all, values);
  std::vector<ir::Batched> batched;
  for (size_t i = 0; i < results.size(); ++i) batched.push_back({results[i], out[i] != 0});
  return batched;
}

Kernel kernel_batch_norm(const ir::KernelRequest& request) {
  const BatchNormAttrs& a = batch_norm_attrs(request.attrs);
  const kernels::BatchNormArgs args{a.epsilon, a.scale, a.center};
  return request.in[0].dtype == DType::f64 ? bind<&kernels::cuda::batch_norm_train<double>, On::gpu>(args)
                                           : bind<&kernels::cuda::batch_norm_train<float>, On::gpu>(args);
}
Kernel kernel_batch_norm_grad(const ir::KernelRequest& request) {
  const BatchNormAttrs& a = batch_norm_attrs(request.attrs);
  const kernels::BatchNormArgs args{a.epsilon, a.scale, a.center};
  return request.in[0].dtype == DType::f64 ? bind<&kernels::cuda::batch_norm_train_grad<double>, On::gpu>(args)
                                           : bind<&kernels::cuda::batch_norm_train_grad<float>, On::gpu>(args);
}

}  // namespace

std::optional<double> batch_norm_operations(const TensorType& x) {
  if (!is_floating(x.dtype) || is_half(x.dtype) || x.rank() < 2 || !known(x.shape)) return {};
  const double size = double(size_of(x.shape).number()), channels = double(x.shape.back().number());
  // cuDNN does not support more elements.
  if (x.shape[0].number() > kMostNormalizedImages || size > double(std::numeric_limits<int32_t>::max())) return {};
  return size >= 2 * channels ? std::optional(4 * size) : std::nullopt;
}

constinit const ir::OpDef def::batch_norm_train{
    .name = kName,
    .inputs = -1,
    .parse_attrs = ir::Attrs<BatchNormAttrs>::parse,
    .infer = infer_batch_norm,
    .vjp = vjp_batch_norm,
    .batch = batch_batch_norm<decompose_batch_norm>,
    .cuda = kernel_batch_norm,
    .decompose = decompose_batch_norm,
    .doc =
        "x [..., c] normalised channel by channel with its own mean and variance, times gamma plus beta, where there are these; and the "
        "two",
};

constinit const ir::OpDef def::batch_norm_train_grad{
    .name = kGradName,
    .inputs = -1,
    .parse_attrs = ir::Attrs<BatchNormAttrs>::parse,
    .infer = infer_batch_norm_grad,
    .vjp = vjp_batch_norm_grad,
    .batch = batch_batch_norm<decompose_grad>,
    .cuda = kernel_batch_norm_grad,
    .decompose = decompose_grad,
    .doc = "batch_norm_train's gradients by x, gamma and beta, from x, gamma, the mean, the variance and the result's gradient",
};

}  // namespace lamina::ops
