#include "graph/nn/metric.h"

#include "graph/frontend/device.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/host_tensor.h"

namespace lamina::metrics {
namespace {

bool ends_in_one(const Tensor& t) { return t.rank() > 0 && t.shape().back() == Dim(1); }
Tensor without_last_axis(const Tensor& t, CallSite at) { return reshape_to(Operand(t, at), Shape(t.shape().begin(), t.shape().end() - 1)); }

Variable zero(const std::string& name) { return Variable(Operand(nn::host_zeros({DType::f64, {}}, default_device())), name, false); }

}  // namespace

Tensor matches(const Operand& y_true, const Operand& y_pred) {
  const CallSite at = y_pred.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  Tensor t = y_true.resolve(), p = y_pred.resolve();
  Tensor guess;
  const bool classes = p.rank() >= 2 && !ends_in_one(p);
  if (classes) {
    if (t.rank() == p.rank() && !ends_in_one(t)) t = argmax(o(t), -1);
    guess = argmax(o(p), -1);
  } else {
    if (ends_in_one(p)) p = without_last_axis(p, at);
    guess = astype(o(greater(o(p), Operand(0.5, at))), DType::i64);
  }
  if (t.rank() == guess.rank() + 1 && ends_in_one(t)) t = without_last_axis(t, at);
  if (t.rank() != guess.rank()) {
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("accuracy: y_true ", y_true.resolve().type(), " does not fit y_pred ", y_pred.resolve().type()),
                 .where = text(at.line()),
                 .why = "labels have one axis less than predictions of classes",
                 .fix = "pass labels [n], or rows [n, classes] like y_pred"});
  }
  return astype(o(equal(o(astype(o(t), DType::i64)), o(guess))), DType::f32);
}

Tensor accuracy(const Operand& y_true, const Operand& y_pred) { return mean(Operand(matches(y_true, y_pred), y_pred.at())); }

Mean::Mean(const std::string& name) : total_(zero(name + "/total")), count_(zero(name + "/count")) {}

void Mean::update(const Operand& values) const {
  const CallSite at = values.at();
  const Tensor v = astype(Operand(values.resolve(), at), DType::f64);
  Dim size = 1;
  for (const Dim d : v.shape()) size = size * d;
  total_.assign_add(Operand(sum(Operand(v, at)), at));
  if (size.known())
    count_.assign_add(Operand(double(size.number()), at));
  else
    count_.assign_add(Operand(sum(Operand(ones_like(Operand(v, at)), at)), at));
}
Tensor Mean::result() const {
  const Tensor count = count_.read();
  return total_.read() / maximum(count, 1.0);
}
void Mean::reset() const {
  total_.assign(0.0);
  count_.assign(0.0);
}

}  // namespace lamina::metrics
