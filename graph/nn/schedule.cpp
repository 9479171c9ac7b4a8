#include "graph/nn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/functions/op_functions.h"
#include "graph/nn/host_tensor.h"

namespace lamina::optim {
namespace {

// Numbers in double, with the call site for errors.
struct Formula {
  CallSite at;
  Operand operator()(const Tensor& t) const { return {t, at}; }
  Operand operator()(double number) const { return {number, at}; }
  Operand operator()(const Hyper& h) const { return h.operand(DType::f64, at); }
  Tensor doubles(const Tensor& t) const { return astype(Operand(t, at), DType::f64); }
  Tensor ratio(const Tensor& steps, double all) const { return doubles(steps) / (*this)(all); }
  // From 1 at share 0 to `low` at share 1; with `top`, the way above `low` times it.
  Tensor cosine(const Tensor& share, const Hyper& low, const Tensor& top = {}) const {
    const Formula& f = *this;
    Tensor wave = f(f(1.0) + f(cos(f(f(share) * f(std::numbers::pi))))) * f(0.5);
    if (top.defined()) wave = f(wave) * f(top);
    if (low.is(0)) return wave;
    const Operand height = low.per_model() ? f(f(1.0) - f(low)) : f(1 - low.value());
    return f(f(wave) * height) + f(low);
  }
};

[[noreturn]] void refuse(const char* schedule, const std::string& what, const char* why, const char* fix) {
  throw Error(ErrorKind::invalid_argument, {.what = cat(schedule, ": ", what), .where = "", .why = why, .fix = fix});
}

int64_t positive(const char* schedule, const char* name, int64_t steps) {
  if (steps < 1) refuse(schedule, cat(name, " ", steps), "it is a number of steps", "pass a positive integer");
  return steps;
}

double positive(const char* schedule, const char* name, double number) {
  if (!(number > 0) || !std::isfinite(number)) refuse(schedule, cat(name, " ", number), "it is a factor", "pass a positive number");
  return number;
}

// A hyperparameter as an f64 tensor.
Tensor number_of(const Hyper& rate, const Tensor& steps, CallSite at) {
  const double number = rate.value();
  return rate.per_model() ? Formula{at}(rate).resolve() : nn::host_tensor(std::span(&number, 1), {DType::f64, {}}, steps.device());
}

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

void require(const std::string& owner, const char* option, const Hyper& value, Range range) {
  std::vector<double> numbers{value.value()};
  if (value.per_model()) {
    const Tensor now = value.operand(DType::f64, CallSite()).resolve();
    numbers = now.is_symbolic() ? std::vector<double>{} : now.to_vector<double>();
  }
  for (const double number : numbers) {
    if (number >= 0 && (range == Range::from_zero ? std::isfinite(number) : range == Range::to_one ? number <= 1 : number < 1)) continue;
    throw Error(ErrorKind::invalid_argument, {.what = cat(owner, ": ", option, " ", number),
                                              .where = "",
                                              .why = range == Range::from_zero ? "with it steps lead away from the minimum, or to no number"
                                                                               : "it is the share of an average or of a step that is kept",
                                              .fix = range == Range::from_zero   ? "pass a finite number from 0 on"
                                                     : range == Range::below_one ? "pass a number from 0 to below 1"
                                                                                 : "pass a number from 0 to 1"});
  }
}

Tensor Schedule::operator()(const Operand& steps) const {
  const Tensor done = steps.resolve();
  if (!is_integer(done.dtype())) {
    throw Error(ErrorKind::type, {.what = cat("the schedule ", name_, " takes a number of steps, it was given ", done.type()),
                                  .where = text(steps.at().line()),
                                  .why = "steps are counted from 0",
                                  .fix = "pass an integer"});
  }
  const Tensor rate = rule_(astype(Operand(done, steps.at()), DType::i64), steps.at());
  if (rate.rank() != 0 || !is_floating(rate.dtype())) {
    throw Error(is_floating(rate.dtype()) ? ErrorKind::invalid_argument : ErrorKind::type,
                {.what = cat("the schedule ", name_, " gave ", rate.type()),
                 .where = text(steps.at().line()),
                 .why = "a learning rate is one floating-point number",
                 .fix = "return a number computed from the steps, such as 0.1 / (1 + steps)"});
  }
  return astype(Operand(rate, steps.at()), DType::f32);
}

namespace schedules {

Constant::Constant(Hyper rate) : Schedule("Constant", [rate](const Tensor& steps, CallSite at) { return number_of(rate, steps, at); }) {
  require("Constant", "learning_rate", rate, Range::from_zero);
}

PiecewiseConstantDecay::PiecewiseConstantDecay(std::vector<int64_t> boundaries, std::vector<Hyper> values)
    : Schedule("PiecewiseConstantDecay", [boundaries, values](const Tensor& steps, CallSite at) {
        const Formula f{at};
        Tensor rate = number_of(values[0], steps, at);
        for (size_t i = 0; i < boundaries.size(); ++i)
          rate = where(f(greater(f(steps), Operand(boundaries[i], at))), f(number_of(values[i + 1], steps, at)), f(rate));
        return rate;
      }) {
  constexpr const char* kName = "PiecewiseConstantDecay";
  if (values.size() != boundaries.size() + 1)
    refuse(kName, cat(values.size(), " values for ", boundaries.size(), " boundaries"), "there is one more value than boundaries",
           "pass a value for before the first boundary and one for after each");
  for (const Hyper& value : values) require(kName, "values", value, Range::from_zero);
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) refuse(kName, "the boundaries fall", "they are numbers of steps", "sort them");
}

ExponentialDecay::ExponentialDecay(Hyper rate, int64_t decay_steps, Hyper decay_rate, bool staircase)
    : Schedule("ExponentialDecay", [=](const Tensor& steps, CallSite at) {
        const Formula f{at};
        const Tensor turns = f.ratio(steps, double(decay_steps));
        return f(pow(f(number_of(decay_rate, steps, at)), f(staircase ? floor(f(turns)) : turns))) * f(rate);
      }) {
  require("ExponentialDecay", "initial_learning_rate", rate, Range::from_zero);
  require("ExponentialDecay", "decay_rate", decay_rate, Range::from_zero);
  positive("ExponentialDecay", "decay_steps", decay_steps);
}

CosineDecay::CosineDecay(Hyper rate, int64_t decay_steps, Hyper alpha)
    : Schedule("CosineDecay", [=](const Tensor& steps, CallSite at) {
        const Formula f{at};
        return f(f.cosine(minimum(f(f.ratio(steps, double(decay_steps))), f(1.0)), alpha)) * f(rate);
      }) {
  require("CosineDecay", "initial_learning_rate", rate, Range::from_zero);
  require("CosineDecay", "alpha", alpha, Range::from_zero);
  positive("CosineDecay", "decay_steps", decay_steps);
}

// After n periods t_mul^n - 1 = (t / first) (t_mul - 1).
CosineDecayRestarts::CosineDecayRestarts(Hyper rate, int64_t first_decay_steps, double t_mul, double m_mul, Hyper alpha)
    : Schedule("CosineDecayRestarts", [=](const Tensor& steps, CallSite at) {
        const Formula f{at};
        const Tensor turns = f.ratio(steps, double(first_decay_steps));
        Tensor period, share;
        if (t_mul == 1) {
          period = floor(f(turns));
          share = f(turns) - f(period);
        } else {
          period = floor(f(f(log(f(f(f(turns) * f(t_mul - 1)) + f(1.0)))) / f(std::log(t_mul))));
          const Tensor length = pow(f(t_mul), f(period));
          share = f(f(turns) - f(f(f(length) - f(1.0)) / f(t_mul - 1))) / f(length);
        }
        return f(f.cosine(share, alpha, pow(f(m_mul), f(period)))) * f(rate);
      }) {
  require("CosineDecayRestarts", "initial_learning_rate", rate, Range::from_zero);
  require("CosineDecayRestarts", "alpha", alpha, Range::from_zero);
  positive("CosineDecayRestarts", "first_decay_steps", first_decay_steps);
  positive("CosineDecayRestarts", "m_mul", m_mul);
  if (!(t_mul >= 1 && std::isfinite(t_mul)))
    refuse("CosineDecayRestarts", cat("t_mul ", t_mul), "periods do not become shorter", "pass 1 or more");
}

PolynomialDecay::PolynomialDecay(Hyper rate, int64_t decay_steps, Hyper end, Hyper power, bool cycle)
    : Schedule("PolynomialDecay", [=](const Tensor& steps, CallSite at) {
        const Formula f{at};
        Tensor share = f.ratio(steps, double(decay_steps));
        share = cycle ? f(share) / f(maximum(f(ceil(f(share))), f(1.0))) : minimum(f(share), f(1.0));
        const Tensor left = f(1.0) - f(share), height = f(number_of(rate, steps, at)) - f(end);
        return f(f(power.is(1) ? left : pow(f(left), f(power))) * f(height)) + f(end);
      }) {
  require("PolynomialDecay", "initial_learning_rate", rate, Range::from_zero);
  require("PolynomialDecay", "end_learning_rate", end, Range::from_zero);
  require("PolynomialDecay", "power", power, Range::from_zero);
  positive("PolynomialDecay", "decay_steps", decay_steps);
}

OneCycle::OneCycle(Hyper top, int64_t total_steps, double pct_start, double div_factor, double final_div_factor)
    : Schedule("OneCycle", [=](const Tensor& steps, CallSite at) {
        const Formula f{at};
        const double peak = pct_start * double(total_steps) - 1, last = double(total_steps) - 1;
        const double low = 1 / div_factor, end = low / final_div_factor;
        const Tensor t = minimum(f(f.doubles(steps)), f(last));
        const auto between = [&](double from, double to, double begin, double stop) {
          const Tensor share = clip(f(f(f(t) - f(begin)) / f(std::max(stop - begin, 1e-300))), f(0.0), f(1.0));
          return f(f(f.cosine(share, 0)) * f(from - to)) + f(to);
        };
        return f(where(f(less_equal(f(t), f(peak))), f(between(low, 1, 0, peak)), f(between(1, end, peak, last)))) * f(top);
      }) {
  require("OneCycle", "max_learning_rate", top, Range::from_zero);
  positive("OneCycle", "total_steps", total_steps);
  positive("OneCycle", "div_factor", div_factor);
  positive("OneCycle", "final_div_factor", final_div_factor);
  if (!(pct_start >= 0 && pct_start <= 1)) refuse("OneCycle", cat("pct_start ", pct_start), "it is a share of the steps", "pass 0.3");
}

Warmup::Warmup(const Rate& after, int64_t warmup_steps, Hyper start)
    : Schedule("Warmup", [=](const Tensor& steps, CallSite at) {
        const Formula f{at};
        const Schedule then = std::holds_alternative<Schedule>(after) ? std::get<Schedule>(after) : Constant(std::get<Hyper>(after));
        const Tensor rest = maximum(f(f(steps) - Operand(warmup_steps, at)), Operand(0, at));  // 0 while it warms up: the first rate
        const Tensor rate = f.doubles(then(f(rest))), share = minimum(f(f.ratio(steps, double(warmup_steps))), f(1.0));
        return where(f(less(f(steps), Operand(warmup_steps, at))), f(f(f(f(rate) - f(start)) * f(share)) + f(start)), f(rate));
      }) {
  require("Warmup", "start", start, Range::from_zero);
  if (std::holds_alternative<Hyper>(after)) require("Warmup", "schedule", std::get<Hyper>(after), Range::from_zero);
  positive("Warmup", "warmup_steps", warmup_steps);
}

}  // namespace schedules
}  // namespace lamina::optim
