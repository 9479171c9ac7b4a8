#include "graph/nn/normalization.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/frontend/tape.h"
#include "graph/functions/op_functions.h"

namespace lamina::nn {
namespace {

const char* const kReshape = "reshape it, and give the last dimension a number";

[[noreturn]] void refuse(const std::string& layer, const TensorType& input, CallSite at, ErrorKind kind, const std::string& why,
                         const std::string& fix) {
  throw Error(kind, {.what = cat(layer, ": cannot take ", input), .where = text(at.line()), .why = why, .fix = fix});
}

void require_dtype(const std::string& layer, const TensorType& input, DType dtype, CallSite at) {
  if (input.dtype != dtype) refuse(layer, input, at, ErrorKind::type, cat("its weights are ", dtype), take_dtype_of(dtype));
}

bool positive(double epsilon) { return epsilon > 0 && std::isfinite(epsilon); }

Tensor value_of(bool used, const Weight& v, CallSite at) { return used ? v->read(at) : Tensor(); }

}  // namespace

BatchNorm::BatchNorm(BatchNormOptions options) : Layer(options.name, options.dtype), options_(std::move(options)) {
  const double m = options_.momentum;
  if (m >= 0 && m <= 1 && positive(options_.epsilon)) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": momentum ", m, " and epsilon ", options_.epsilon),
                                            .where = "",
                                            .why = "momentum is from 0 to 1, epsilon is positive",
                                            .fix = "leave them out: momentum 0.99, epsilon 1e-3"});
}

void BatchNorm::build(const TensorType& input) {
  const CallSite at = call_site();
  if (input.rank() < 2 || !input.shape.back().known())
    refuse(name(), input, at, ErrorKind::invalid_argument, "it takes [..., channels], at least two dimensions, the last of known length",
           kReshape);
  require_dtype(name(), input, options_.dtype, at);
  const Shape shape{input.shape.back()};
  if (options_.scale) gamma_ = add_weight("gamma", shape, "ones", options_.dtype);
  if (options_.center) beta_ = add_weight("beta", shape, "zeros", options_.dtype);
  const DType statistics = is_half(options_.dtype) ? DType::f32 : options_.dtype;
  moving_mean_ = add_weight("moving_mean", shape, "zeros", statistics, false);
  moving_variance_ = add_weight("moving_variance", shape, "ones", statistics, false);
}

Tensor BatchNorm::call(const Tensor& x, bool training) {
  const CallSite at = call_site();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  if (x.rank() < 2 || x.shape().back() != moving_mean_->shape()[0])
    refuse(name(), x.type(), at, ErrorKind::invalid_argument, cat("it has ", moving_mean_->shape()[0], " channels"),
           "pass [..., channels]");
  const bool empty = std::any_of(x.shape().begin(), x.shape().end(), [](const Dim& d) { return d == Dim(0); });  // it has no statistics
  if (!training || empty)
    return batch_norm(o(x), o(moving_mean_->read(at)), o(moving_variance_->read(at)), value_of(options_.center, beta_, at),
                      value_of(options_.scale, gamma_, at), options_.epsilon);
  const BatchNormalized batch =
      batch_norm_train(o(x), value_of(options_.center, beta_, at), value_of(options_.scale, gamma_, at), options_.epsilon);
  const auto move = [&](const Variable& moving, const Tensor& now) {
    const Tensor was = moving.read(at);
    const Tensor step = mul(o(sub(o(stop_gradient(o(now))), o(was))), Operand(1 - options_.momentum, at));
    moving.assign(o(lamina::add(o(was), o(step))));
  };
  move(*moving_mean_, batch.moments.mean);
  move(*moving_variance_, batch.moments.variance);
  return batch.y;
}

LayerNorm::LayerNorm(LayerNormOptions options) : Layer(options.name, options.dtype), options_(std::move(options)) {
  if (!options_.axes.empty() && positive(options_.epsilon)) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": ", options_.axes.size(), " axes and epsilon ", options_.epsilon),
                                            .where = "",
                                            .why = "there is at least one axis, and epsilon is positive",
                                            .fix = "leave them out: the last axis, epsilon 1e-3"});
}

void LayerNorm::build(const TensorType& input) {
  const CallSite at = call_site();
  require_dtype(name(), input, options_.dtype, at);
  std::vector<int64_t> axes;
  for (int64_t axis : options_.axes) axes.push_back(normalize_axis("layer_norm", axis, input.rank()));
  std::sort(axes.begin(), axes.end());
  Shape shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim length = input.shape[size_t(axes[i])];
    if (axes[i] != int64_t(input.rank() - axes.size() + i) || !length.known())
      refuse(name(), input, at, ErrorKind::invalid_argument, "it normalises the last axes, whose lengths are known",
             "pass axes from the end, such as -1, and give them numbers");
    shape.push_back(length);
  }
  if (options_.scale) gamma_ = add_weight("gamma", shape, "ones", options_.dtype);
  if (options_.center) beta_ = add_weight("beta", shape, "zeros", options_.dtype);
}

Tensor LayerNorm::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  return layer_norm(Operand(x, at), value_of(options_.scale, gamma_, at), value_of(options_.center, beta_, at), options_.axes,
                    options_.epsilon);
}

RMSNorm::RMSNorm(RMSNormOptions options) : Layer(options.name, options.dtype), options_(std::move(options)) {
  if (positive(options_.epsilon)) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(name(), ": epsilon ", options_.epsilon), .where = "", .why = "it is positive", .fix = "pass 1e-6"});
}
void RMSNorm::build(const TensorType& input) {
  const CallSite at = call_site();
  if (input.rank() < 1 || !input.shape.back().known())
    refuse(name(), input, at, ErrorKind::invalid_argument, "it takes [..., channels], the last of known length", kReshape);
  require_dtype(name(), input, options_.dtype, at);
  scale_ = add_weight("scale", {input.shape.back()}, "ones", options_.dtype);
}
Tensor RMSNorm::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  return rms_norm(Operand(x, at), scale_->read(at), {-1}, options_.epsilon);
}

GroupNorm::GroupNorm(GroupNormOptions options) : Layer(options.name, options.dtype), options_(std::move(options)) {
  if ((options_.groups > 0 || options_.groups == -1) && positive(options_.epsilon)) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": ", options_.groups, " groups and epsilon ", options_.epsilon),
                                            .where = "",
                                            .why = "there is at least one group (-1: one for each channel), and epsilon is positive",
                                            .fix = "pass a divisor of the channels, and leave epsilon out"});
}
int64_t GroupNorm::groups_of(const TensorType& input) const {
  return options_.groups == -1 && input.rank() > 0 && input.shape.back().known() ? input.shape.back().number() : options_.groups;
}
void GroupNorm::build(const TensorType& input) {
  const CallSite at = call_site();
  if (input.rank() < 2 || !input.shape.back().known() || input.shape.back().number() % groups_of(input) != 0) {
    refuse(name(), input, at, ErrorKind::invalid_argument,
           cat("it takes [n, ..., channels], and its ", options_.groups, " groups divide the channels"), "pass another number of groups");
  }
  require_dtype(name(), input, options_.dtype, at);
  if (options_.scale) gamma_ = add_weight("gamma", {input.shape.back()}, "ones", options_.dtype);
  if (options_.center) beta_ = add_weight("beta", {input.shape.back()}, "zeros", options_.dtype);
}
Tensor GroupNorm::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  return group_norm(Operand(x, at), groups_of(x.type()), value_of(options_.scale, gamma_, at), value_of(options_.center, beta_, at),
                    options_.epsilon);
}

Embedding::Embedding(int64_t classes, int64_t width, EmbeddingOptions options)
    : Layer(options.name), classes_(classes), width_(width), options_(std::move(options)) {
  if (classes > 0 && width > 0) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(name(), ": a table of ", classes, " rows of ", width), .where = "", .why = "both are at least 1", .fix = ""});
}
void Embedding::build(const TensorType& input) {
  if (!is_integer(input.dtype)) refuse(name(), input, call_site(), ErrorKind::type, "ids are whole numbers", "use astype(ids, i32)");
  table_ = add_weight("embeddings", {classes_, width_}, options_.embeddings_initializer, options_.dtype);
}
Tensor Embedding::call(const Tensor& ids, bool) {
  return embedding_lookup(Operand(table_->read(call_site()), call_site()), Operand(ids, call_site()));
}

}  // namespace lamina::nn
