#include "graph/nn/optimizer.h"

#include <algorithm>

#include "graph/frontend/device.h"
#include "graph/functions/in_f32.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/host_tensor.h"

namespace lamina::optim {
namespace {

std::string names_of(const std::vector<Variable>& variables) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < variables.size() && i < kShown; ++i) text += cat(i ? ", " : "", '\'', variables[i].name(), '\'');
  return variables.size() > kShown ? cat(text, " and ", variables.size() - kShown, " more") : text;
}

// The dtype of updates and slots: the square of a half type's gradient would often be 0.
DType computed(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

Variable scalar_variable(const Hyper& value, const std::string& name) {
  if (value.per_model()) return *value.per_model();
  const double number = value.value();
  return Variable(Operand(nn::host_tensor(std::span(&number, 1), {DType::f32, {}}, default_device())), name, false);
}

// The call site for errors in a formula.
struct Formula {
  CallSite at;
  Operand operator()(const Tensor& t) const { return {t, at}; }
  Operand operator()(const Variable& v) const { return {v.read(at), at}; }
  Operand operator()(double number) const { return {number, at}; }
  Operand operator()(const Hyper& h, DType dtype) const { return h.operand(dtype, at); }
};

}  // namespace

Hyper::Hyper(const Variable& per_model) : per_model_(per_model) {
  if (per_model.models() > 0 && per_model.handle()->one_model->rank() == 0 && is_floating(per_model.dtype())) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("hyperparameter: the variable '", per_model.name(), "' is ", *per_model.handle()->type),
               .where = "",
               .why = "it is a number, or a stacked variable with one floating-point number per model",
               .fix = "pass a number, or lm.per_model([...]) with a number per model"});
}

Operand Hyper::operand(DType dtype, CallSite at) const {
  if (!per_model_) return {value_, at};
  return {astype(Operand(per_model_->read(at), at), dtype), at};
}

Optimizer::Optimizer(std::string name, const Hyper& learning_rate)
    : name_(std::move(name)), learning_rate_(scalar_variable(learning_rate, name_ + "/learning_rate")) {}

bool Optimizer::built() const {
  const std::lock_guard lock(building_);
  return built_;
}

std::vector<Variable> Optimizer::variables() const {
  const std::lock_guard lock(building_);
  std::vector<Variable> out{learning_rate_};
  out.insert(out.end(), states_.begin(), states_.end());
  for (auto& one : slots_) out.insert(out.end(), one.slots.begin(), one.slots.end());
  return out;
}

std::vector<Variable> Optimizer::trained_variables() const {
  const std::lock_guard lock(building_);
  std::vector<Variable> out;
  for (auto& one : slots_) out.push_back(one.variable);
  return out;
}

Variable Optimizer::add_state(const std::string& name, const Tensor& initial) {
  states_.emplace_back(Operand(initial), name_ + "/" + name, false);
  return states_.back();
}

void Optimizer::build(const std::vector<Variable>& variables) {
  const std::lock_guard lock(building_);
  build_locked(variables, {});
}

void Optimizer::build_locked(const std::vector<Variable>& variables, CallSite at) {
  const auto known = [&](const Variable& v) { return index_.contains(v.handle().get()); };
  if (built_) {
    if (variables.size() == slots_.size() && std::all_of(variables.begin(), variables.end(), known)) return;
    throw Error(ErrorKind::state, {.what = cat(name_, ": this optimizer was built for other variables"),
                                   .where = text(at.line()),
                                   .why = cat("it has ", slots_.size(), ", now it is given ", variables.size(), ": ", names_of(variables)),
                                   .fix = "make another optimizer for them, or build this one once, with all of them"});
  }
  add_locked(variables, at);
  built_ = true;
}

void Optimizer::add_variables(const std::vector<Variable>& variables) {
  const std::lock_guard lock(building_);
  add_locked(variables, {});
}

void Optimizer::add_locked(const std::vector<Variable>& variables, CallSite at) {
  std::vector<Slots> slots = slots_;
  std::unordered_map<const void*, size_t> index = index_;
  for (auto& v : variables) {
    if (!is_floating(v.dtype())) {
      throw Error(ErrorKind::type, {.what = cat(name_, ": cannot train '", v.name(), "', which is ", v.type()),
                                    .where = text(at.line()),
                                    .why = "an optimizer changes floating-point numbers",
                                    .fix = "leave it out, or give it a floating dtype"});
    }
    if (!index.emplace(v.handle().get(), slots.size()).second) continue;
    Slots& made = slots.emplace_back(Slots{v, {}});
    for (auto& slot : slot_names()) {
      const TensorType type{computed(v.dtype()), v.handle()->type->shape};
      made.slots.emplace_back(Operand(nn::host_zeros(type, v.device()), at), cat(name_, "/", v.name(), "/", slot), false);
      if (v.models() > 0) made.slots.back().stack();
    }
  }
  slots_ = std::move(slots);
  index_ = std::move(index);
}

void Optimizer::apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables, CallSite at) {
  if (gradients.size() != variables.size()) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(name_, ": ", gradients.size(), " gradients for ", variables.size(), " variables"),
                                              .where = text(at.line()),
                                              .why = "each variable needs its gradient",
                                              .fix = "pass what tape.gradient returned for these variables"});
  }
  std::vector<GradientAndVariable> pairs;
  for (size_t i = 0; i < gradients.size(); ++i) pairs.emplace_back(gradients[i], variables[i]);
  apply_gradients(pairs, at);
}

void Optimizer::apply_gradients(const std::vector<GradientAndVariable>& pairs, CallSite at) {
  std::vector<Variable> all;
  for (auto& [gradient, variable] : pairs) all.push_back(variable);
  if (std::none_of(pairs.begin(), pairs.end(), [](auto& pair) { return pair.first.defined(); })) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(name_, ": there are no gradients"),
                                              .where = text(at.line()),
                                              .why = pairs.empty() ? "the list of gradients and variables is empty"
                                                                   : cat("nothing connects the loss with any of ", names_of(all)),
                                              .fix = "compute the loss from the variables while the tape is active"});
  }
  std::vector<size_t> places;
  {
    const std::lock_guard lock(building_);
    if (!built_) build_locked(all, at);
    std::vector<Variable> known;
    for (auto& one : slots_) known.push_back(one.variable);
    for (auto& v : all) {
      const auto found = index_.find(v.handle().get());
      if (found != index_.end()) {
        places.push_back(found->second);
        continue;
      }
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(name_, ": this optimizer does not know the variable '", v.name(), "'"),
                   .where = text(at.line()),
                   .why = cat("it was built for ", names_of(known)),
                   .fix = "make another optimizer for it, or build this one with all variables before the first step"});
    }
  }
  for (auto& [gradient, variable] : pairs) {
    if (!gradient.defined() || gradient.type() == variable.type()) continue;
    throw Error(ErrorKind::invalid_argument, {.what = cat(name_, ": the gradient of '", variable.name(), "' is ", gradient.type()),
                                              .where = text(at.line()),
                                              .why = cat("the variable is ", variable.type()),
                                              .fix = "pass the gradients in the order of their variables"});
  }
  const std::vector<Tensor> scalars = begin_step(at);
  std::unordered_map<DType, std::vector<Tensor>> converted;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [gradient, variable] = pairs[i];
    if (!gradient.defined()) continue;
    const DType dtype = computed(variable.dtype());
    std::vector<Tensor>& own = converted[dtype];
    for (size_t k = own.size(); k < scalars.size(); ++k) own.push_back(astype(Operand(scalars[k], at), dtype));
    const Tensor value = widened(Operand(variable.read(at), at));
    update({variable, value, widened(Operand(gradient, at)), slots_[places[i]].slots, own, at});
  }
}

void Optimizer::Step::assign(const Tensor& now) const { variable.assign(Operand(narrowed(now, variable.dtype(), at), at)); }

std::vector<Tensor> Optimizer::begin_step(CallSite at) { return {learning_rate_.read(at)}; }

SGD::SGD(Hyper learning_rate, Hyper momentum, bool nesterov)
    : Optimizer("sgd", learning_rate), momentum_(std::move(momentum)), nesterov_(nesterov) {
  if (momentum_.per_model() || (momentum_.value() >= 0 && momentum_.value() <= 1)) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat("sgd: momentum ", momentum_.value()),
                                            .where = "",
                                            .why = "it is the share of the last step that is kept: from 0 to 1",
                                            .fix = "pass a momentum from 0 to 1"});
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

RMSprop::RMSprop(Hyper learning_rate, RMSpropOptions options) : Optimizer("rmsprop", learning_rate), options_(std::move(options)) {}

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

Adam::Adam(std::string name, const Hyper& learning_rate, AdamOptions options)
    : Optimizer(std::move(name), learning_rate),
      options_(std::move(options)),
      iterations_(add_state("iterations", nn::host_zeros({DType::i64, {}}, default_device()))) {}

std::map<std::string, Hyper> Adam::hyperparameters() const {
  return {{"beta_1", options_.beta_1}, {"beta_2", options_.beta_2}, {"epsilon", options_.epsilon}, {"weight_decay", options_.weight_decay}};
}

std::vector<std::string> Adam::slot_names() const { return {"momentum", "velocity"}; }

// In double: in single precision, 1 - beta_2^t has three digits in the first steps.
std::vector<Tensor> Adam::begin_step(CallSite at) {
  const Formula f{at};
  const Tensor rate = learning_rate().read(at), steps = f(iterations_) + Operand(1, at);
  iterations_.assign(f(steps));
  const Tensor t = astype(f(steps), DType::f64);
  const auto rest = [&](const Hyper& beta) {
    const double number = beta.value();
    const Operand base =
        beta.per_model() ? f(beta, DType::f64) : f(nn::host_tensor(std::span(&number, 1), {DType::f64, {}}, rate.device()));
    return f(1.0) - f(pow(base, f(t)));
  };
  const Tensor corrected = f(f(astype(f(rate), DType::f64)) * f(sqrt(f(rest(options_.beta_2))))) / f(rest(options_.beta_1));
  return {corrected, rate};
}

void Adam::update(const Step& step) {
  const Formula f{step.at};
  const Tensor& g = step.gradient;
  const DType dtype = step.dtype();
  const auto toward = [&](const Variable& slot, const Tensor& now, const Hyper& beta) {
    const Operand share = beta.per_model() ? f(f(1.0) - f(beta, dtype)) : f(1 - beta.value());
    const Tensor before = slot.read(step.at);
    const Tensor next = f(before) + f(f(f(now) - f(before)) * share);
    slot.assign(f(next));
    return next;
  };
  const Tensor m = toward(step.slots[0], g, options_.beta_1), s = toward(step.slots[1], square(f(g)), options_.beta_2);
  Tensor value = step.value;
  if (!options_.weight_decay.is(0)) value = f(value) - f(f(value) * f(f(step.scalars[1]) * f(options_.weight_decay, dtype)));
  const Tensor move = f(f(m) * f(step.scalars[0])) / f(f(sqrt(f(s))) + f(options_.epsilon, dtype));
  step.assign(f(value) - f(move));
}

}  // namespace lamina::optim
