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
#include "runtime/core/mutex.h"

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

class LAMINA_API Optimizer {
 public:
  using GradientAndVariable = std::pair<Tensor, Variable>;

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Creates the slots (momenta, ...; f32 if the variable has a half type) of these variables, stacked as they are. The optimizer then
  // accepts no others. apply_gradients does it at its first call, which may be traced. Throws state when it was built for other variables.
  void build(const std::vector<Variable>& variables);
  // Creates slots for variables that have none yet, such as those made trainable later.
  void add_variables(const std::vector<Variable>& variables);
  // One step. Pairs with an undefined gradient are skipped. Throws invalid_argument when all are undefined, for a variable that the
  // optimizer was not built for, and for a gradient whose shape differs from its variable's.
  void apply_gradients(const std::vector<GradientAndVariable>& pairs, CallSite at = std::source_location::current());
  void apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                       CallSite at = std::source_location::current());

  // f32, without axes (or with the model axis). Assigning it changes later steps without retracing.
  const Variable& learning_rate() const { return learning_rate_; }
  // A learning rate per model is set to this rate for all models.
  void set_learning_rate(double rate) { learning_rate_.assign(rate); }
  const std::string& name() const { return name_; }
  // What it was made with beside the learning rate, by the names of the options; a switch is 0 or 1.
  virtual std::map<std::string, Hyper> hyperparameters() const { return {}; }
  bool built() const;
  // The learning rate, the step counter if there is one, and the slots.
  std::vector<Variable> variables() const;
  // What it has slots for, in the order of the slots.
  std::vector<Variable> trained_variables() const;

 protected:
  Optimizer(std::string name, const Hyper& learning_rate);

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
  // Once per step, before all updates: floating scalars that the updates share. By default the learning rate.
  virtual std::vector<Tensor> begin_step(CallSite at);
  virtual void update(const Step& step) = 0;
  // A variable of the optimizer itself.
  Variable add_state(const std::string& name, const Tensor& initial);

 private:
  void build_locked(const std::vector<Variable>& variables, CallSite at);
  void add_locked(const std::vector<Variable>& variables, CallSite at);
  std::string name_;
  Variable learning_rate_;
  std::vector<Variable> states_;
  struct Slots {
    Variable variable;
    std::vector<Variable> slots;
  };
  std::vector<Slots> slots_;                       // in the order of build()'s variables
  std::unordered_map<const void*, size_t> index_;  // by variable
  bool built_ = false;
  mutable Mutex building_;
};

// v -= rate g; with momentum m: s = m s - rate g, v += s; nesterov: v += m s - rate g.
class LAMINA_API SGD : public Optimizer {
 public:
  explicit SGD(Hyper learning_rate = 0.01, Hyper momentum = 0, bool nesterov = false);
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
  explicit RMSprop(Hyper learning_rate = 0.001, RMSpropOptions options = {});
  std::map<std::string, Hyper> hyperparameters() const override;

 private:
  std::vector<std::string> slot_names() const override;
  void update(const Step& step) override;
  bool has_momentum() const { return options_.momentum.per_model() || options_.momentum.value() > 0; }
  RMSpropOptions options_;
};

// m += (g - m)(1 - beta_1); s += (g^2 - s)(1 - beta_2); v -= m rate sqrt(1 - beta_2^t) / (1 - beta_1^t) / (sqrt(s) + epsilon), t = 1 in the
// first step. Kingma and Ba 2015. With weight_decay, first v -= rate weight_decay v (Loshchilov and Hutter 2019).
struct AdamOptions {
  Hyper beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7, weight_decay = 0;
};
class LAMINA_API Adam : public Optimizer {
 public:
  explicit Adam(Hyper learning_rate = 0.001, AdamOptions options = {}) : Adam("adam", learning_rate, std::move(options)) {}
  const Variable& iterations() const { return iterations_; }  // i64: steps done
  std::map<std::string, Hyper> hyperparameters() const override;

 protected:
  Adam(std::string name, const Hyper& learning_rate, AdamOptions options);

 private:
  std::vector<std::string> slot_names() const override;
  std::vector<Tensor> begin_step(CallSite at) override;
  void update(const Step& step) override;
  AdamOptions options_;
  Variable iterations_;
};

class LAMINA_API AdamW : public Adam {
 public:
  explicit AdamW(Hyper learning_rate = 0.001, AdamOptions options = {.weight_decay = 0.004})
      : Adam("adamw", learning_rate, std::move(options)) {}
};

}  // namespace lamina::optim
