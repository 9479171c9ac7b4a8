// Hyperparameters of optimizers: numbers, numbers per model of an ensemble, and learning rates that follow a schedule.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"

namespace lamina::optim {

// A hyperparameter: a number, or an lm::per_model Variable with a number for each model of an ensemble.
class LAMINA_API Hyper {
 public:
  Hyper(double value) : value_(value) {}
  Hyper(const Variable& per_model);  // throws invalid_argument unless each model has one floating-point number
  const std::optional<Variable>& per_model() const { return per_model_; }
  bool is(double value) const { return !per_model_ && value_ == value; }
  double value() const { return value_; }
  Operand operand(DType dtype, CallSite at) const;

 private:
  double value_ = 0;
  std::optional<Variable> per_model_;
};

enum class Range { from_zero, below_one, to_one };  // finite numbers from 0 on; from 0 to below 1; from 0 to 1
// Throws invalid_argument when the number, or a model's, is outside of its range. What a trace computes is not known yet.
void require(const std::string& owner, const char* option, const Hyper& value, Range range);

// A learning rate as a function of the steps done: 0 in the first step. Its ops are part of the training step's graph, so no step retraces.
// Formulas and names follow Keras 3 where it has them; t is the number of steps done.
class LAMINA_API Schedule {
 public:
  using Rule = std::function<Tensor(const Tensor& steps, CallSite at)>;  // i64 -> a floating-point number
  Schedule(std::string name, Rule rule) : name_(std::move(name)), rule_(std::move(rule)) {}
  // The rate after this many steps (an integer): f32. Throws type or invalid_argument when the rule gives anything but one number.
  Tensor operator()(const Operand& steps) const;
  const std::string& name() const { return name_; }
  // For language bindings: what it was made of.
  std::shared_ptr<const void> origin;

 private:
  std::string name_;
  Rule rule_;
};

// What a learning rate is given as.
using Rate = std::variant<Hyper, Schedule>;

// The constructors throw invalid_argument for numbers of steps below 1 and the like.
namespace schedules {

struct LAMINA_API Constant : Schedule {
  explicit Constant(Hyper learning_rate);
};
// values[i], where i boundaries are below t: values[0] up to and including step boundaries[0].
struct LAMINA_API PiecewiseConstantDecay : Schedule {
  PiecewiseConstantDecay(std::vector<int64_t> boundaries, std::vector<Hyper> values);
};
// rate decay_rate^(t / decay_steps); staircase: the exponent is rounded down.
struct LAMINA_API ExponentialDecay : Schedule {
  ExponentialDecay(Hyper learning_rate, int64_t decay_steps, Hyper decay_rate, bool staircase = false);
};
// rate ((1 - alpha) (1 + cos(pi t / decay_steps)) / 2 + alpha), with t at most decay_steps. Loshchilov and Hutter 2017.
struct LAMINA_API CosineDecay : Schedule {
  CosineDecay(Hyper learning_rate, int64_t decay_steps, Hyper alpha = 0);
};
// Periods of CosineDecay, each t_mul times as long as the one before, from a rate m_mul times as high. Loshchilov and Hutter 2017.
struct LAMINA_API CosineDecayRestarts : Schedule {
  CosineDecayRestarts(Hyper learning_rate, int64_t first_decay_steps, double t_mul = 2, double m_mul = 1, Hyper alpha = 0);
};
// (rate - end) (1 - t / decay_steps)^power + end, with t at most decay_steps; cycle: decay_steps becomes its next multiple instead.
struct LAMINA_API PolynomialDecay : Schedule {
  PolynomialDecay(Hyper learning_rate, int64_t decay_steps, Hyper end_learning_rate = 1e-4, Hyper power = 1, bool cycle = false);
};
// Half a cosine from maximum / div_factor up to maximum in the first pct_start of the steps, then down to the first rate / final_div_factor
// at step total_steps - 1. Smith and Topin 2019, with PyTorch's defaults.
struct LAMINA_API OneCycle : Schedule {
  OneCycle(Hyper max_learning_rate, int64_t total_steps, double pct_start = 0.3, double div_factor = 25, double final_div_factor = 1e4);
};
// For warmup_steps steps linear from `start` to the first rate of another schedule or number, which follows from its beginning.
struct LAMINA_API Warmup : Schedule {
  Warmup(const Rate& after, int64_t warmup_steps, Hyper start = 0);
};

}  // namespace schedules
}  // namespace lamina::optim
