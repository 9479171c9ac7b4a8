#include "graph/frontend/normalize.h"

#include "graph/frontend/op_functions.h"

namespace lamina {

Moments moments(const Operand& x, const std::vector<int64_t>& axes, bool keepdims) {
  const CallSite at = x.at();
  const Tensor t = x.resolve(), center = mean(Operand(t, at), axes, true);
  const Tensor variance = mean(Operand(square(Operand(sub(Operand(t, at), Operand(center, at)), at)), at), axes, keepdims);
  return {reshape_to(Operand(center, at), variance.shape()), variance};
}

Tensor batch_norm(const Operand& x, const Operand& mean, const Operand& variance, const Tensor& offset, const Tensor& scale, double epsilon) {
  const CallSite at = x.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  Tensor slope = rsqrt(o(add(variance, Operand(epsilon, at))));
  if (scale.defined()) slope = mul(o(slope), o(scale));
  const Tensor y = mul(o(sub(x, mean)), o(slope));
  return offset.defined() ? add(o(y), o(offset)) : y;
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
