// Optimizers: update variables from gradients. Formulas and defaults follow Keras 3. Updates are plain elementwise ops, so the passes can
// fuse them with the gradients.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"
#include "graph/nn/schedule.h"
#include "runtime/core/mutex.h"

namespace lamina::optim {

// Switches that every optimizer has.
struct UpdateOptions {
  // Every k-th call of apply_gradients is a step, with the mean gradient of the k calls; the others only add up.
  int64_t gradient_accumulation_steps = 1;
  // Keeps a moving average of each weight: average = m average + (1 - m) weight after every step, the weight itself after the first.
  std::optional<double> ema_momentum = {};
  // For half types: scale_loss() multiplies the loss by a scale that apply_gradients divides the gradients by. A step whose gradients are
  // not all finite is left out, and halves the scale; 2000 good ones in a row double it. Micikevicius et al. 2018.
  bool dynamic_loss_scale = false;
};

class LAMINA_API Optimizer {
 public:
  using GradientAndVariable = std::pair<Tensor, Variable>;

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Creates the slots (momenta, ...; f32 if the variable has a half type) of these variables, stacked as they are. The optimizer then
  // accepts no others. apply_gradients does it at its first call, which may be traced. Throws state when it was built for other variables.
  void build(const std::vector<Variable>& variables);
  // Creates slots for variables that have none yet, such as those made trainable later. The slots of variables in `order`, by default those
  // given, then follow one another as they do there, so that the order does not tell which came later.
  void add_variables(const std::vector<Variable>& variables, const std::vector<Variable>& order = {});
  // One step. Pairs with an undefined gradient are skipped. Throws invalid_argument when all are undefined, for a variable that the
  // optimizer was not built for, and for a gradient whose shape differs from its variable's.
  void apply_gradients(const std::vector<GradientAndVariable>& pairs, CallSite at = std::source_location::current());
  void apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                       CallSite at = std::source_location::current());

  // f32, without axes (or with the model axis). Assigning it changes later steps without retracing. Throws state for a schedule.
  const Variable& learning_rate() const;
  // A learning rate per model is set to this rate for all models.
  void set_learning_rate(double rate) { learning_rate().assign(rate); }
  // The rate of the next step: f32.
  Tensor current_learning_rate(CallSite at = std::source_location::current()) const;
  const std::optional<Schedule>& schedule() const { return schedule_; }
  // Counts the steps, which those that need their number do in any case: for a schedule, an average of the weights, and the Adams. Throws
  // state after build().
  void count_steps();
  bool counts() const { return iterations_.has_value(); }
  // i64: steps done. Throws state where they are not counted.
  const Variable& iterations() const;
  // The loss to differentiate: itself, or times the scale of dynamic_loss_scale.
  Tensor scale_loss(const Operand& loss) const;
  // The averages of ema_momentum in the order of trained_variables(); empty without it.
  std::vector<Variable> averages() const;
  const UpdateOptions& update_options() const { return update_options_; }
  const std::string& name() const { return name_; }
  // What it was made with beside the learning rate, by the names of the options; a switch is 0 or 1.
  virtual std::map<std::string, Hyper> hyperparameters() const { return {}; }
  bool built() const;
  // The learning rate unless it is a schedule, the step counter if there is one, other numbers, and the slots of each weight.
  std::vector<Variable> variables() const;
  // How many slots each weight has.
  size_t slots_per_variable() const;
  // What it has slots for, in the order of the slots.
  std::vector<Variable> trained_variables() const;

 protected:
  // counts: whether steps are counted in any case.
  Optimizer(std::string name, const Rate& learning_rate, const UpdateOptions& options, bool counts = false);

  // Arguments of update(): the variable's value, its gradient, its slots, and begin_step()'s result. All have the variable's dtype, or f32
  // if that is a half type.
  struct Step {
    const Variable& variable;
    const Tensor& value;
    const Tensor& gradient;
    const std::vector<Variable>& slots;
    const std::vector<Tensor>& scalars;
    CallSite at;
    DType dtype() const { return value.dtype(); }
    void assign(const Tensor& now) const;
  };
  virtual std::vector<std::string> slot_names() const = 0;
  virtual double slot_start() const { return 0; }
  // Once per step, before all updates: floating scalars that the updates share. By default the learning rate. steps: i64, 1 in the first
  // step; undefined unless they are counted.
  virtual std::vector<Tensor> begin_step(const Tensor& rate, const Tensor& steps, CallSite at);
  virtual void update(const Step& step) = 0;
  void require(const char* option, const Hyper& value, Range range) const { optim::require(name_, option, value, range); }
  // A variable of the optimizer itself.
  Variable add_state(const std::string& name, const Tensor& initial);

 private:
  struct Gradient {
    Variable variable;
    Tensor gradient;  // in the dtype of updates
    size_t place;     // in slots_
  };
  void step_unless_infinite(const std::vector<Gradient>& gradients, CallSite at);
  void step_or_add_up(const std::vector<Gradient>& gradients, CallSite at);
  void step(const std::vector<Gradient>& gradients, CallSite at);
  void build_locked(const std::vector<Variable>& variables, CallSite at);
  void add_locked(const std::vector<Variable>& variables, CallSite at);
  void arrange_locked(const std::vector<Variable>& order);
  std::string name_;
  UpdateOptions update_options_;
  std::optional<Variable> learning_rate_;
  std::optional<Schedule> schedule_;
  std::vector<Variable> states_;  // of the optimizer itself, those below among them
  std::optional<Variable> iterations_, added_, loss_scale_, good_steps_;
  struct Slots {
    Variable variable;
    std::vector<Variable> slots;  // the rule's
    std::optional<Variable> sum, average;
  };
  std::vector<Slots> slots_;                       // in the order of build()'s variables
  std::unordered_map<const void*, size_t> index_;  // by variable
  bool built_ = false;
  mutable Mutex building_;
};

// v -= rate g; with momentum m: s = m s - rate g, v += s; nesterov: v += m s - rate g.
class LAMINA_API SGD : public Optimizer {
 public:
  explicit SGD(const Rate& learning_rate = Hyper(0.01), Hyper momentum = 0, bool nesterov = false, const UpdateOptions& update = {});
  std::map<std::string, Hyper> hyperparameters() const override { return {{"momentum", momentum_}, {"nesterov", double(nesterov_)}}; }

 private:
  std::vector<std::string> slot_names() const override;
  void update(const Step& step) override;
  Hyper momentum_;
  bool nesterov_;
};

// s = rho s + (1 - rho) g^2; d = rate g / sqrt(s + epsilon), centered: rate g / sqrt(s - a^2 + epsilon) with a = rho a + (1 - rho) g;
// v -= d, with momentum m: b = m b + d, v -= b. Tieleman and Hinton 2012.
struct RMSpropOptions {
  Hyper rho = 0.9, momentum = 0, epsilon = 1e-7;
  bool centered = false;
};
class LAMINA_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(const Rate& learning_rate = Hyper(0.001), RMSpropOptions options = {}, const UpdateOptions& update = {});
  std::map<std::string, Hyper> hyperparameters() const override;

 private:
  std::vector<std::string> slot_names() const override;
  void update(const Step& step) override;
  bool has_momentum() const { return options_.momentum.per_model() || options_.momentum.value() > 0; }
  RMSpropOptions options_;
};

// s += g^2, from initial_accumulator_value; v -= rate g / sqrt(s + epsilon). Duchi, Hazan and Singer 2011.
struct AdagradOptions {
  double initial_accumulator_value = 0.1;
  Hyper epsilon = 1e-7;
};
class LAMINA_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(const Rate& learning_rate = Hyper(0.001), AdagradOptions options = {}, const UpdateOptions& update = {});
  std::map<std::string, Hyper> hyperparameters() const override;

 private:
  std::vector<std::string> slot_names() const override { return {"accumulator"}; }
  double slot_start() const override { return options_.initial_accumulator_value; }
  void update(const Step& step) override;
  AdagradOptions options_;
};

// m += (g - m)(1 - beta_1); s += (g^2 - s)(1 - beta_2); v -= m rate sqrt(1 - beta_2^t) / (1 - beta_1^t) / (sqrt(s) + epsilon), t = 1 in the
// first step. Kingma and Ba 2015. With weight_decay, first v -= rate weight_decay v (Loshchilov and Hutter 2019).
struct AdamOptions {
  Hyper beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7, weight_decay = 0;
};
class LAMINA_API Adam : public Optimizer {
 public:
  explicit Adam(const Rate& learning_rate = Hyper(0.001), AdamOptions options = {}, const UpdateOptions& update = {})
      : Adam("adam", learning_rate, std::move(options), update) {}
  std::map<std::string, Hyper> hyperparameters() const override;

 protected:
  Adam(std::string name, const Rate& learning_rate, AdamOptions options, const UpdateOptions& update);
  std::vector<Tensor> begin_step(const Tensor& rate, const Tensor& steps, CallSite at) override;
  void update(const Step& step) override;
  const AdamOptions& options() const { return options_; }

 private:
  std::vector<std::string> slot_names() const override { return {"momentum", "velocity"}; }
  AdamOptions options_;
};

class LAMINA_API AdamW : public Adam {
 public:
  explicit AdamW(const Rate& learning_rate = Hyper(0.001), AdamOptions options = {.weight_decay = 0.004}, const UpdateOptions& update = {})
      : Adam("adamw", learning_rate, std::move(options), update) {}
};

// Adam with Nesterov's momentum: v -= (u' m / (1 - p u') + (1 - u) g / (1 - p)) rate / (sqrt(s / (1 - beta_2^t)) + epsilon), where u is
// beta_1 (1 - 0.96^t / 2), u' the next step's u, and p the product of all u so far. Dozat 2016.
class LAMINA_API Nadam : public Adam {
 public:
  explicit Nadam(const Rate& learning_rate = Hyper(0.001), AdamOptions options = {}, const UpdateOptions& update = {});

 private:
  std::vector<Tensor> begin_step(const Tensor& rate, const Tensor& steps, CallSite at) override;
  void update(const Step& step) override;
  Variable product_;  // f64
};

// v -= rate sign(beta_1 m + (1 - beta_1) g), then m = beta_2 m + (1 - beta_2) g; with weight_decay, first v -= rate weight_decay v.
// Chen et al. 2023.
struct LionOptions {
  Hyper beta_1 = 0.9, beta_2 = 0.99, weight_decay = 0;
};
class LAMINA_API Lion : public Optimizer {
 public:
  explicit Lion(const Rate& learning_rate = Hyper(0.001), LionOptions options = {}, const UpdateOptions& update = {});
  std::map<std::string, Hyper> hyperparameters() const override;

 private:
  std::vector<std::string> slot_names() const override { return {"momentum"}; }
  void update(const Step& step) override;
  LionOptions options_;
};

}  // namespace lamina::optim
