// The rules of the optimizers.
#include <algorithm>

#include "graph/frontend/device.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/host_tensor.h"
#include "graph/nn/optimizer.h"

namespace lamina::optim {
namespace {

// The call site for errors in a formula.
struct Formula {
  CallSite at;
  Operand operator()(const Tensor& t) const { return {t, at}; }
  Operand operator()(const Variable& v) const { return {v.read(at), at}; }
  Operand operator()(double number) const { return {number, at}; }
  Operand operator()(const Hyper& h, DType dtype) const { return h.operand(dtype, at); }
};

// f64
Operand in_double(const Hyper& value, const Tensor& beside, CallSite at) {
  const double number = value.value();
  if (value.per_model()) return value.operand(DType::f64, at);
  return {nn::host_tensor(std::span(&number, 1), {DType::f64, {}}, beside.device()), at};
}

// The first product of Nadam's shares; for each model if these differ.
Tensor first_product(const Hyper& beta) {
  const int64_t models = beta.per_model() ? beta.per_model()->models() : 0;
  const std::vector<double> ones(size_t(std::max<int64_t>(models, 1)), 1.0);
  return nn::host_tensor(ones, {DType::f64, models ? Shape{models} : Shape{}}, default_device());
}

// Adam's averages of the gradient and of its square, which become the slots.
template <class Step>
std::pair<Tensor, Tensor> moments(const Step& step, const AdamOptions& options) {
  const Formula f{step.at};
  const auto toward = [&](const Variable& slot, const Tensor& now, const Hyper& beta) {
    const Operand share = beta.per_model() ? f(f(1.0) - f(beta, step.dtype())) : f(1 - beta.value());
    const Tensor before = slot.read(step.at);
    const Tensor next = f(before) + f(f(f(now) - f(before)) * share);
    slot.assign(f(next));
    return next;
  };
  const Tensor m = toward(step.slots[0], step.gradient, options.beta_1);
  return {m, toward(step.slots[1], square(f(step.gradient)), options.beta_2)};
}

// The value after weight decay.
template <class Step>
Tensor decayed(const Step& step, const Hyper& decay, const Tensor& rate) {
  const Formula f{step.at};
  return decay.is(0) ? step.value : f(step.value) - f(f(step.value) * f(f(rate) * f(decay, step.dtype())));
}

}  // namespace

SGD::SGD(const Rate& learning_rate, Hyper momentum, bool nesterov, const UpdateOptions& update)
    : Optimizer("sgd", learning_rate, update), momentum_(std::move(momentum)), nesterov_(nesterov) {
  require("momentum", momentum_, Range::to_one);
}

std::vector<std::string> SGD::slot_names() const {
  return momentum_.is(0) ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
}

void SGD::update(const Step& step) {
  const Formula f{step.at};
  const Tensor move = f(step.gradient) * f(step.scalars[0]);
  if (momentum_.is(0)) return step.assign(f(step.value) - f(move));
  const Operand momentum = f(momentum_, step.dtype());
  const Tensor speed = f(f(step.slots[0]) * momentum) - f(move);
  step.slots[0].assign(f(speed));
  const Tensor change = nesterov_ ? f(f(speed) * momentum) - f(move) : speed;
  step.assign(f(step.value) + f(change));
}

RMSprop::RMSprop(const Rate& learning_rate, RMSpropOptions options, const UpdateOptions& update)
    : Optimizer("rmsprop", learning_rate, update), options_(std::move(options)) {
  require("rho", options_.rho, Range::to_one);
  require("momentum", options_.momentum, Range::to_one);
  require("epsilon", options_.epsilon, Range::from_zero);
}

std::map<std::string, Hyper> RMSprop::hyperparameters() const {
  return {{"rho", options_.rho}, {"momentum", options_.momentum}, {"epsilon", options_.epsilon}, {"centered", double(options_.centered)}};
}

std::vector<std::string> RMSprop::slot_names() const {
  std::vector<std::string> names{"velocity"};
  if (has_momentum()) names.push_back("momentum");
  if (options_.centered) names.push_back("average_gradient");
  return names;
}

void RMSprop::update(const Step& step) {
  const Formula f{step.at};
  const DType dtype = step.dtype();
  const Operand rho = f(options_.rho, dtype), rest = options_.rho.per_model() ? f(f(1.0) - rho) : f(1 - options_.rho.value());
  const auto decayed = [&](const Variable& slot, const Tensor& now) {
    const Tensor next = f(f(slot) * rho) + f(f(now) * rest);
    slot.assign(f(next));
    return next;
  };
  const Tensor& g = step.gradient;
  Tensor power = decayed(step.slots[0], square(f(g)));
  if (options_.centered) {
    const Tensor average = decayed(step.slots.back(), g);
    power = f(power) - f(square(f(average)));
  }
  Tensor move = f(f(g) * f(step.scalars[0])) / f(sqrt(f(f(power) + f(options_.epsilon, dtype))));
  if (has_momentum()) {
    move = f(f(step.slots[1]) * f(options_.momentum, dtype)) + f(move);
    step.slots[1].assign(f(move));
  }
  step.assign(f(step.value) - f(move));
}

Adagrad::Adagrad(const Rate& learning_rate, AdagradOptions options, const UpdateOptions& update)
    : Optimizer("adagrad", learning_rate, update), options_(std::move(options)) {
  require("initial_accumulator_value", options_.initial_accumulator_value, Range::from_zero);
  require("epsilon", options_.epsilon, Range::from_zero);
}

std::map<std::string, Hyper> Adagrad::hyperparameters() const {
  return {{"initial_accumulator_value", options_.initial_accumulator_value}, {"epsilon", options_.epsilon}};
}

void Adagrad::update(const Step& step) {
  const Formula f{step.at};
  const Tensor& g = step.gradient;
  const Tensor sum = f(step.slots[0]) + f(square(f(g)));
  step.slots[0].assign(f(sum));
  const Tensor move = f(f(g) * f(step.scalars[0])) / f(sqrt(f(f(sum) + f(options_.epsilon, step.dtype()))));
  step.assign(f(step.value) - f(move));
}

Adam::Adam(std::string name, const Rate& learning_rate, AdamOptions options, const UpdateOptions& update)
    : Optimizer(std::move(name), learning_rate, update, true), options_(std::move(options)) {
  require("beta_1", options_.beta_1, Range::below_one);
  require("beta_2", options_.beta_2, Range::below_one);
  require("epsilon", options_.epsilon, Range::from_zero);
  require("weight_decay", options_.weight_decay, Range::from_zero);
}

std::map<std::string, Hyper> Adam::hyperparameters() const {
  return {{"beta_1", options_.beta_1}, {"beta_2", options_.beta_2}, {"epsilon", options_.epsilon}, {"weight_decay", options_.weight_decay}};
}

// Corrections are in double: in single precision, 1 - beta_2^t has three digits in the first steps.
std::vector<Tensor> Adam::begin_step(const Tensor& rate, const Tensor& steps, CallSite at) {
  const Formula f{at};
  const Tensor t = astype(f(steps), DType::f64);
  const auto rest = [&](const Hyper& beta) { return f(1.0) - f(pow(in_double(beta, rate, at), f(t))); };
  const Tensor corrected = f(f(astype(f(rate), DType::f64)) * f(sqrt(f(rest(options_.beta_2))))) / f(rest(options_.beta_1));
  return {corrected, rate};
}

void Adam::update(const Step& step) {
  const Formula f{step.at};
  const DType dtype = step.dtype();
  const auto [m, s] = moments(step, options_);
  const Tensor value = decayed(step, options_.weight_decay, step.scalars[1]);
  const Tensor move = f(f(m) * f(step.scalars[0])) / f(f(sqrt(f(s))) + f(options_.epsilon, dtype));
  step.assign(f(value) - f(move));
}

Nadam::Nadam(const Rate& learning_rate, AdamOptions options, const UpdateOptions& update)
    : Adam("nadam", learning_rate, std::move(options), update), product_(add_state("product", first_product(this->options().beta_1))) {
  if (this->options().beta_1.per_model()) product_.stack();
}

std::vector<Tensor> Nadam::begin_step(const Tensor& rate, const Tensor& steps, CallSite at) {
  const Formula f{at};
  const Tensor t = astype(f(steps), DType::f64);
  const Operand beta = in_double(options().beta_1, rate, at);
  const auto share = [&](const Tensor& of) { return f(f(1.0) - f(f(pow(in_double(0.96, rate, at), f(of))) * f(0.5))) * beta; };
  const Tensor now = share(t), next = share(f(t) + f(1.0));
  const Tensor product = f(product_) * f(now);
  product_.assign(f(product));
  const Tensor of_momentum = f(f(astype(f(rate), DType::f64)) * f(next)) / f(f(1.0) - f(f(product) * f(next)));
  const Tensor of_gradient = f(f(astype(f(rate), DType::f64)) * f(f(1.0) - f(now))) / f(f(1.0) - f(product));
  const Tensor correction = f(1.0) / f(sqrt(f(f(1.0) - f(pow(in_double(options().beta_2, rate, at), f(t))))));
  return {of_momentum, of_gradient, correction, rate};
}

void Nadam::update(const Step& step) {
  const Formula f{step.at};
  const auto [m, s] = moments(step, options());
  const Tensor value = decayed(step, options().weight_decay, step.scalars[3]);
  const Tensor move = f(f(m) * f(step.scalars[0])) + f(f(step.gradient) * f(step.scalars[1]));
  const Tensor size = f(f(sqrt(f(s))) * f(step.scalars[2])) + f(options().epsilon, step.dtype());
  step.assign(f(value) - f(f(move) / f(size)));
}

Lion::Lion(const Rate& learning_rate, LionOptions options, const UpdateOptions& update)
    : Optimizer("lion", learning_rate, update), options_(std::move(options)) {
  require("beta_1", options_.beta_1, Range::below_one);
  require("beta_2", options_.beta_2, Range::below_one);
  require("weight_decay", options_.weight_decay, Range::from_zero);
}

std::map<std::string, Hyper> Lion::hyperparameters() const {
  return {{"beta_1", options_.beta_1}, {"beta_2", options_.beta_2}, {"weight_decay", options_.weight_decay}};
}

void Lion::update(const Step& step) {
  const Formula f{step.at};
  const Tensor m = step.slots[0].read(step.at);
  const auto toward = [&](const Hyper& beta) {
    const Operand share = beta.per_model() ? f(f(1.0) - f(beta, step.dtype())) : f(1 - beta.value());
    return f(m) + f(f(f(step.gradient) - f(m)) * share);
  };
  const Tensor move = f(sign(f(toward(options_.beta_1)))) * f(step.scalars[0]);
  step.slots[0].assign(f(toward(options_.beta_2)));
  step.assign(f(decayed(step, options_.weight_decay, step.scalars[0])) - f(move));
}

}  // namespace lamina::optim
