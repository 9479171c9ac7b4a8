#include "graph/functions/normalize.h"

#include "graph/functions/in_f32.h"
#include "graph/functions/op_functions.h"

namespace lamina {
namespace {

// An array of the host beside a weight has the weight's dtype.
Tensor beside_weight(const char* op, const Operand& x, const Tensor& scale, const Tensor& offset) {
  const Tensor& weight = scale.defined() ? scale : offset;
  const Tensor t = weight.defined() ? x.resolve(weight.dtype(), weight.device(), "normalisation") : resolve_floating(x);
  if (is_complex(t.dtype()))
    throw Error(ErrorKind::type, {.what = cat(op, ": ", t.type(), " is complex"),
                                  .where = text(x.at().line()),
                                  .why = cat(op, " is defined for real numbers"),
                                  .fix = "pass lm.real(x), lm.imag(x) or lm.abs(x)"});
  return t;
}

// Scales and offsets for a half-typed x: numbers of its dtype, computed in f32 as x itself, or statistics that are f32 already.
Tensor beside(const Tensor& x, const Operand& v) {
  const Tensor t = v.resolve();
  return t.dtype() == x.dtype() ? widened(Operand(t, v.at())) : t;
}

// Of x as it is computed.
Moments moments_of(const Operand& x, const AxesOrAll& axes, bool keepdims) {
  const CallSite at = x.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor center = mean(x, axes, true), variance = mean(o(squared_size(o(sub(x, o(center))))), axes, keepdims);
  return {reshape_to(o(center), variance.shape()), variance};
}

}  // namespace

Moments moments(const Operand& x, const AxesOrAll& axes, bool keepdims) {
  const Tensor t = resolve_floating(x);
  const Moments wide = moments_of(Operand(widened(Operand(t, x.at())), x.at()), axes, keepdims);
  return {narrowed(wide.mean, t.dtype(), x.at()), narrowed(wide.variance, t.dtype(), x.at())};
}

Tensor batch_norm(const Operand& operand, const Operand& mean, const Operand& variance, const Tensor& offset, const Tensor& scale,
                  double epsilon) {
  const CallSite at = operand.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor given = beside_weight("batch_norm", operand, scale, offset), x = widened(o(given));
  Tensor slope = rsqrt(o(add(o(beside(given, variance)), Operand(epsilon, at))));
  if (scale.defined()) slope = mul(o(slope), o(beside(given, o(scale))));
  const Tensor y = mul(o(sub(o(x), o(beside(given, mean)))), o(slope));
  return narrowed(offset.defined() ? add(o(y), o(beside(given, o(offset)))) : y, given.dtype(), at);
}

BatchNormalized batch_norm_train(const Operand& operand, const Tensor& offset, const Tensor& scale, double epsilon) {
  const CallSite at = operand.at();
  const Tensor given = beside_weight("batch_norm", operand, scale, offset), x = widened(Operand(given, at));
  const auto beside_x = [&](const Tensor& weight) { return weight.defined() ? beside(given, Operand(weight, at)) : weight; };
  const Tensor beta = beside_x(offset), gamma = beside_x(scale);
  Axes axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  const Moments of_x = moments_of(Operand(x, at), axes, false);
  const Tensor y = batch_norm(Operand(x, at), Operand(of_x.mean, at), Operand(of_x.variance, at), beta, gamma, epsilon);
  return {narrowed(y, given.dtype(), at), of_x};
}

Tensor layer_norm(const Operand& operand, const Tensor& scale, const Tensor& offset, const std::vector<int64_t>& axes, double epsilon) {
  const CallSite at = operand.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor given = beside_weight("layer_norm", operand, scale, offset), x = widened(o(given)),
               deviation = sub(o(x), o(mean(o(x), axes, true)));
  const Tensor variance = mean(o(square(o(deviation))), axes, true);
  Tensor y = mul(o(deviation), o(rsqrt(o(add(o(variance), Operand(epsilon, at))))));
  if (scale.defined()) y = mul(o(y), o(beside(given, o(scale))));
  if (offset.defined()) y = add(o(y), o(beside(given, o(offset))));
  return narrowed(y, given.dtype(), at);
}

Tensor rms_norm(const Operand& operand, const Tensor& scale, const std::vector<int64_t>& axes, double epsilon) {
  const CallSite at = operand.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor given = beside_weight("rms_norm", operand, scale, {}), x = widened(o(given));
  Tensor y = mul(o(x), o(rsqrt(o(add(o(mean(o(square(o(x))), axes, true)), Operand(epsilon, at))))));
  if (scale.defined()) y = mul(o(y), o(beside(given, o(scale))));
  return narrowed(y, given.dtype(), at);
}

Tensor group_norm(const Operand& operand, int64_t groups, const Tensor& scale, const Tensor& offset, double epsilon) {
  const CallSite at = operand.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor given = beside_weight("group_norm", operand, scale, offset);
  if (given.rank() < 2 || groups < 1 || !given.shape().back().known() || given.shape().back().number() % groups != 0) {
    throw Error(ErrorKind::invalid_argument, {.what = cat("group_norm: ", groups, " groups of ", given.type()),
                                              .where = text(at.line()),
                                              .why = "it takes [n, ..., channels], and the groups divide the channels",
                                              .fix = "pass another number of groups"});
  }
  Shape split(given.shape().begin(), given.shape().end() - 1);
  split.push_back(groups);
  split.push_back(given.shape().back().number() / groups);
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis < int64_t(split.size()); ++axis)
    if (axis != int64_t(split.size()) - 2) axes.push_back(axis);
  const Tensor x = widened(o(reshape_to(o(given), split))), deviation = sub(o(x), o(mean(o(x), axes, true)));
  const Tensor variance = mean(o(square(o(deviation))), axes, true);
  Tensor y = reshape_to(o(mul(o(deviation), o(rsqrt(o(add(o(variance), Operand(epsilon, at))))))), given.shape());
  if (scale.defined()) y = mul(o(y), o(beside(given, o(scale))));
  if (offset.defined()) y = add(o(y), o(beside(given, o(offset))));
  return narrowed(y, given.dtype(), at);
}

Tensor embedding_lookup(const Operand& table, const Operand& ids) { return gather(table, ids, 0); }

}  // namespace lamina
