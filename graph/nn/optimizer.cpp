#include "graph/nn/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/frontend/device.h"
#include "graph/frontend/trace.h"
#include "graph/functions/control_flow.h"
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

Tensor first_of_slot(const TensorType& type, double value, Device device) {
  if (value == 0) return nn::host_zeros(type, device);
  return nn::host_tensor(std::vector<double>(size_t(size_of(type.shape).number()), value), type, device);
}

// The dtype of updates and slots: the square of a half type's gradient would often be 0.
DType computed(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

Variable scalar_variable(const Hyper& value, const std::string& name) {
  if (value.per_model()) return *value.per_model();
  const double number = value.value();
  return Variable(Operand(nn::host_tensor(std::span(&number, 1), {DType::f32, {}}, default_device())), name, false);
}

Operand on(CallSite at, const Tensor& t) { return {t, at}; }
Operand on(CallSite at, const Variable& v) { return {v.read(at), at}; }

constexpr double kFirstScale = 32768, kSmallestScale = 1, kLargestScale = 16777216;
constexpr int64_t kGoodSteps = 2000;

}  // namespace

Optimizer::Optimizer(std::string name, const Rate& learning_rate, const UpdateOptions& options, bool counts)
    : name_(std::move(name)), update_options_(options) {
  if (options.gradient_accumulation_steps < 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name_, ": gradient_accumulation_steps ", options.gradient_accumulation_steps),
                                              .where = "",
                                              .why = "it is how many calls make a step",
                                              .fix = "pass 1 or more"});
  if (options.ema_momentum) require("ema_momentum", *options.ema_momentum, Range::below_one);
  if (std::holds_alternative<Schedule>(learning_rate)) {
    schedule_ = std::get<Schedule>(learning_rate);
  } else {
    require("learning_rate", std::get<Hyper>(learning_rate), Range::from_zero);
    learning_rate_ = scalar_variable(std::get<Hyper>(learning_rate), name_ + "/learning_rate");
  }
  const auto number = [&](const char* name, DType dtype, double value) {
    return add_state(name, nn::host_tensor(std::span(&value, 1), {dtype, {}}, default_device()));
  };
  if (counts || schedule_ || options.ema_momentum) iterations_ = number("iterations", DType::i64, 0);
  if (options.gradient_accumulation_steps > 1) added_ = number("gradients_added", DType::i64, 0);
  if (!options.dynamic_loss_scale) return;
  loss_scale_ = number("loss_scale", DType::f32, kFirstScale);
  good_steps_ = number("good_steps", DType::i64, 0);
}

const Variable& Optimizer::learning_rate() const {
  if (learning_rate_) return *learning_rate_;
  throw Error(ErrorKind::state, {.what = cat(name_, ": the learning rate is a schedule (", schedule_->name(), ")"),
                                 .where = "",
                                 .why = "it follows from the steps done, and is not a Variable",
                                 .fix = "make the optimizer with a number to set it"});
}

const Variable& Optimizer::iterations() const {
  if (iterations_) return *iterations_;
  throw Error(ErrorKind::state, {.what = cat(name_, ": the steps are not counted"),
                                 .where = "",
                                 .why = "its update does not depend on their number",
                                 .fix = "ask for them before the first step (count_steps() in C++), from which they are counted then"});
}

void Optimizer::count_steps() {
  const std::lock_guard lock(building_);
  if (iterations_) return;
  if (built_) {
    throw Error(ErrorKind::state, {.what = cat(name_, ": the steps done so far were not counted"),
                                   .where = "",
                                   .why = "its update does not depend on their number, and nothing asked for it before the first step",
                                   .fix = "read .iterations (count_steps() in C++) once before the first step"});
  }
  const double none = 0;
  iterations_ = add_state("iterations", nn::host_tensor(std::span(&none, 1), {DType::i64, {}}, default_device()));
}

Tensor Optimizer::current_learning_rate(CallSite at) const {
  return schedule_ ? (*schedule_)(on(at, *iterations_)) : astype(on(at, *learning_rate_), DType::f32);
}

Tensor Optimizer::scale_loss(const Operand& loss) const {
  if (!loss_scale_) return loss.resolve();
  const Tensor wide = widened(loss);
  return Operand(wide, loss.at()) * Operand(astype(on(loss.at(), *loss_scale_), wide.dtype()), loss.at());
}

std::vector<Variable> Optimizer::averages() const {
  const std::lock_guard lock(building_);
  std::vector<Variable> out;
  for (auto& one : slots_)
    if (one.average) out.push_back(*one.average);
  return out;
}

size_t Optimizer::slots_per_variable() const {
  return slot_names().size() + size_t(update_options_.gradient_accumulation_steps > 1) + size_t(update_options_.ema_momentum.has_value());
}

bool Optimizer::built() const {
  const std::lock_guard lock(building_);
  return built_;
}

std::vector<Variable> Optimizer::variables() const {
  const std::lock_guard lock(building_);
  std::vector<Variable> out;
  if (learning_rate_) out.push_back(*learning_rate_);
  out.insert(out.end(), states_.begin(), states_.end());
  for (auto& one : slots_) {
    out.insert(out.end(), one.slots.begin(), one.slots.end());
    if (one.sum) out.push_back(*one.sum);
    if (one.average) out.push_back(*one.average);
  }
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

void Optimizer::add_variables(const std::vector<Variable>& variables, const std::vector<Variable>& order) {
  const std::lock_guard lock(building_);
  add_locked(variables, {});
  arrange_locked(order.empty() ? variables : order);
}

void Optimizer::arrange_locked(const std::vector<Variable>& order) {
  std::vector<size_t> from;  // places of those that are listed
  std::vector<char> listed(slots_.size(), false);
  for (const Variable& v : order) {
    const auto found = index_.find(v.handle().get());
    if (found != index_.end() && !std::exchange(listed[found->second], true)) from.push_back(found->second);
  }
  std::vector<size_t> to = from;
  std::sort(to.begin(), to.end());
  const std::vector<Slots> before = slots_;
  for (size_t i = 0; i < to.size(); ++i) {
    slots_[to[i]] = before[from[i]];
    index_[slots_[to[i]].variable.handle().get()] = to[i];
  }
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
    Slots& made = slots.emplace_back(Slots{v, {}, {}, {}});
    const TensorType type{computed(v.dtype()), v.handle()->type->shape};
    const auto slot = [&](const std::string& name, const Tensor& first) {
      const Variable own(Operand(first, at), cat(name_, "/", v.name(), "/", name), false);
      if (v.models() > 0) own.stack();
      return own;
    };
    for (auto& name : slot_names()) made.slots.push_back(slot(name, first_of_slot(type, slot_start(), v.device())));
    if (update_options_.gradient_accumulation_steps > 1) made.sum = slot("gradient_sum", nn::host_zeros(type, v.device()));
    if (update_options_.ema_momentum) made.average = slot("average", nn::host_zeros(type, v.device()));
  }
  // A step that is left out is one model's, so each model has its own scale and counts.
  const int64_t models = variables.empty() ? 0 : variables[0].models();
  if (loss_scale_ && models > 0 && loss_scale_->models() == 0) {
    if (!executing_eagerly()) {
      throw Error(ErrorKind::state, {.what = cat(name_, ": the loss scales of ", models, " models do not exist yet"),
                                     .where = text(at.line()),
                                     .why = "with dynamic_loss_scale each model has its own, and scale_loss() has used them before",
                                     .fix = "call optimizer.build(nets.trainable_variables) before the first step"});
    }
    for (const Variable& state : states_)
      if (state.models() == 0) state.stack(broadcast_to(Operand(reshape(on(at, state), {1}), at), {Dim(models)}));
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
  std::vector<Gradient> gradients;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [gradient, variable] = pairs[i];
    if (gradient.defined()) gradients.push_back({variable, widened(Operand(gradient, at)), places[i]});
  }
  step_unless_infinite(gradients, at);
}

void Optimizer::step_unless_infinite(const std::vector<Gradient>& gradients, CallSite at) {
  if (!loss_scale_) return step_or_add_up(gradients, at);
  const Tensor scale = loss_scale_->read(at), good = good_steps_->read(at);
  std::vector<Gradient> unscaled = gradients;
  Tensor finite;
  for (Gradient& one : unscaled) {
    one.gradient = on(at, one.gradient) / on(at, astype(on(at, scale), one.gradient.dtype()));
    const Tensor own = all(on(at, isfinite(on(at, one.gradient))));
    finite = finite.defined() ? logical_and(on(at, finite), on(at, own)) : own;
  }
  control::cond(
      on(at, finite), [&]() -> std::vector<Tensor> { return step_or_add_up(unscaled, at), std::vector<Tensor>{}; },
      [] { return std::vector<Tensor>{}; });
  const Tensor full = greater_equal(on(at, good), Operand(kGoodSteps - 1, at));
  const Tensor grown = minimum(on(at, on(at, scale) * Operand(2.0, at)), Operand(kLargestScale, at));
  const Tensor halved = maximum(on(at, on(at, scale) * Operand(0.5, at)), Operand(kSmallestScale, at));
  const Tensor kept = where(on(at, full), on(at, grown), on(at, scale)), none = on(at, good) * Operand(0, at);
  loss_scale_->assign(on(at, where(on(at, finite), on(at, kept), on(at, halved))));
  const Tensor counted =
      where(on(at, logical_and(on(at, finite), on(at, logical_not(on(at, full))))), on(at, on(at, good) + Operand(1, at)), on(at, none));
  good_steps_->assign(on(at, counted));
}

void Optimizer::step_or_add_up(const std::vector<Gradient>& gradients, CallSite at) {
  const int64_t calls = update_options_.gradient_accumulation_steps;
  if (calls == 1) return step(gradients, at);
  const Tensor added = on(at, *added_) + Operand(1, at);
  std::vector<Gradient> sums = gradients;
  for (Gradient& one : sums) one.gradient = on(at, *slots_[one.place].sum) + on(at, one.gradient);
  const auto whole = [&] {
    std::vector<Gradient> means = sums;
    for (Gradient& one : means) {
      slots_[one.place].sum->assign(on(at, zeros_like(on(at, one.gradient))));
      one.gradient = on(at, one.gradient) * Operand(1.0 / double(calls), at);
    }
    added_->assign(on(at, on(at, added) * Operand(0, at)));
    step(means, at);
    return std::vector<Tensor>{};
  };
  const auto part = [&] {
    for (const Gradient& one : sums) slots_[one.place].sum->assign(on(at, one.gradient));
    added_->assign(on(at, added));
    return std::vector<Tensor>{};
  };
  control::cond(on(at, greater_equal(on(at, added), Operand(calls, at))), whole, part);
}

void Optimizer::step(const std::vector<Gradient>& gradients, CallSite at) {
  const Tensor rate = schedule_ ? current_learning_rate(at) : learning_rate_->read(at);
  Tensor steps;
  if (iterations_) {
    steps = on(at, *iterations_) + Operand(1, at);
    iterations_->assign(on(at, steps));
  }
  const std::vector<Tensor> scalars = begin_step(rate, steps, at);
  std::unordered_map<DType, std::vector<Tensor>> converted;
  for (const auto& [variable, gradient, place] : gradients) {
    const DType dtype = computed(variable.dtype());
    std::vector<Tensor>& own = converted[dtype];
    for (size_t k = own.size(); k < scalars.size(); ++k) own.push_back(astype(Operand(scalars[k], at), dtype));
    const Tensor value = widened(Operand(variable.read(at), at));
    update({variable, value, gradient, slots_[place].slots, own, at});
    if (!update_options_.ema_momentum) continue;
    const Variable& average = *slots_[place].average;
    const Tensor now = widened(on(at, variable)), before = average.read(at);
    const Tensor far = on(at, before) - on(at, now);
    const Tensor next = on(at, now) + on(at, on(at, far) * Operand(*update_options_.ema_momentum, at));
    average.assign(on(at, where(on(at, equal(on(at, steps), Operand(1, at))), on(at, now), on(at, next))));
  }
}

void Optimizer::Step::assign(const Tensor& now) const { variable.assign(Operand(narrowed(now, variable.dtype(), at), at)); }

std::vector<Tensor> Optimizer::begin_step(const Tensor& rate, const Tensor&, CallSite) { return {rate}; }

}  // namespace lamina::optim
