#include "graph/frontend/normalize.h"

#include "graph/frontend/eager.h"
#include "graph/frontend/op_functions.h"
#include "graph/frontend/trace.h"
#include "graph/ops/batch_norm.h"
#include "runtime/device/backend.h"

namespace lamina {
namespace {

// Whether an eager normalisation is to be a library's. In a trace it is an op, and decided when the graph is planned.
bool library_normalizes(const Tensor& x) {
  if (x.device().kind == DeviceKind::cpu) return false;
  const std::optional<double> operations = ops::batch_norm_operations(x.type());
  return operations && backend_of(x.device()).image_library_serves(*operations);
}

}  // namespace

Moments moments(const Operand& x, const std::vector<int64_t>& axes, bool keepdims) {
  const CallSite at = x.at();
  const Tensor t = x.resolve(), center = mean(Operand(t, at), axes, true);
  const Tensor variance = mean(Operand(square(Operand(sub(Operand(t, at), Operand(center, at)), at)), at), axes, keepdims);
  return {reshape_to(Operand(center, at), variance.shape()), variance};
}

Tensor batch_norm(const Operand& x, const Operand& mean, const Operand& variance, const Tensor& offset, const Tensor& scale,
                  double epsilon) {
  const CallSite at = x.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  Tensor slope = rsqrt(o(add(variance, Operand(epsilon, at))));
  if (scale.defined()) slope = mul(o(slope), o(scale));
  const Tensor y = mul(o(sub(x, mean)), o(slope));
  return offset.defined() ? add(o(y), o(offset)) : y;
}

BatchNormalized batch_norm_train(const Operand& x, const Tensor& offset, const Tensor& scale, double epsilon) {
  const CallSite at = x.at();
  const Tensor t = x.resolve();
  const bool library = !Trace::current() && library_normalizes(t);
  if (!Trace::current() && !library) {
    std::vector<int64_t> axes;
    for (int i = 0; i + 1 < t.rank(); ++i) axes.push_back(i);
    const Moments of_x = moments(Operand(t, at), axes);
    return {batch_norm(Operand(t, at), Operand(of_x.mean, at), Operand(of_x.variance, at), offset, scale, epsilon), of_x};
  }
  std::vector<Tensor> in{t};
  for (const Tensor& weight : {scale, offset})
    if (weight.defined()) in.push_back(weight);
  const std::vector<Tensor> out =
      apply(ops::def::batch_norm_train, ir::make_attrs(ops::BatchNormAttrs{epsilon, scale.defined(), offset.defined(), library}), in, at);
  return {out[0], {out[1], out[2]}};
}

Tensor layer_norm(const Operand& x, const Tensor& scale, const Tensor& offset, const std::vector<int64_t>& axes, double epsilon) {
  const CallSite at = x.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor t = x.resolve(), deviation = sub(o(t), o(mean(o(t), axes, true)));
  const Tensor variance = mean(o(square(o(deviation))), axes, true);
  Tensor y = mul(o(deviation), o(rsqrt(o(add(o(variance), Operand(epsilon, at))))));
  if (scale.defined()) y = mul(o(y), o(scale));
  return offset.defined() ? add(o(y), o(offset)) : y;
}

Tensor embedding_lookup(const Operand& table, const Operand& ids) { return gather(table, ids, 0); }

}  // namespace lamina
