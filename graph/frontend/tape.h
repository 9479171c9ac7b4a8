// GradientTape: records ops while it is active and differentiates them.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"

namespace lamina {

class TapeRecord;

// A Tensor or Variable to differentiate with respect to.
struct Source {
  Source(const Tensor& t) : tensor(t) {}
  Source(const Variable& v) : variable(v) {}
  Tensor tensor;
  std::optional<Variable> variable;
};

// Whether a tape of this thread records what is computed eagerly from it, so that a number read from it would be without a gradient.
LAMINA_API bool is_recorded(const Tensor& t);
LAMINA_API bool is_recorded(const Variable& v);

class LAMINA_API GradientTape {
 public:
  struct Options {
    bool persistent = false;      // gradient() may be called several times
    bool watch_variables = true;  // trainable Variables are watched when read
    bool started = true;          // active from construction
  };
  // Active from construction until gradient() or destruction. Belongs to the thread and the trace in which it starts.
  GradientTape() : GradientTape(Options{}) {}
  explicit GradientTape(Options options);
  ~GradientTape();
  GradientTape(GradientTape&&) noexcept;
  GradientTape(const GradientTape&) = delete;

  void start();
  void stop();
  void watch(const Tensor& t);    // records what is computed from t from now on; t must be floating
  void watch(const Variable& v);  // also for a Variable that is not trainable
  void reset();                   // forgets everything

  // While it lives, nothing is recorded on this tape.
  class LAMINA_API Pause {
   public:
    explicit Pause(TapeRecord& record);
    Pause(Pause&&) noexcept;
    ~Pause();

   private:
    TapeRecord* record_;
  };
  Pause stop_recording() { return Pause(record()); }

  // Per source, the gradient of the sum of all targets, of the source's type; an undefined Tensor where nothing connects them.
  // output_gradients: one per target, or none for ones. Throws state when a non-persistent tape is used twice. `unseen`: for each source
  // that the tape did not record, or whose targets it did not, an explanation.
  std::vector<Tensor> gradient(std::span<const Tensor> targets, std::span<const Source> sources,
                               std::span<const Tensor> output_gradients = {}, CallSite at = std::source_location::current(),
                               std::vector<std::string>* unseen = nullptr);
  // The derivative of each element of the target with respect to each element of each source: [target's shape..., source's shape...]; an
  // undefined Tensor where nothing connects them. The gradients of all elements are computed together.
  std::vector<Tensor> jacobian(const Tensor& target, std::span<const Source> sources, CallSite at = std::source_location::current());
  // tape.gradient(cost, w, b), tape.gradient(cost, variables): sources are Tensors, Variables or vectors of them.
  template <class First, class... Rest>
  std::vector<Tensor> gradient(const Operand& target, const First& first, const Rest&... rest) {
    std::vector<Source> sources;
    add(sources, first);
    (add(sources, rest), ...);
    return gradient(std::span(&target.tensor(), 1), sources, {}, target.at());
  }

 private:
  TapeRecord& record() const;  // throws state after a move
  void begin(std::span<const Tensor> targets, CallSite at);
  static void add(std::vector<Source>& out, const Tensor& t) { out.emplace_back(t); }
  static void add(std::vector<Source>& out, const Variable& v) { out.emplace_back(v); }
  template <class T>
  static void add(std::vector<Source>& out, const std::vector<T>& all) {
    for (auto& one : all) add(out, one);
  }
  std::shared_ptr<TapeRecord> record_;
};

// value_and_grad(f)(x, y): f's value and its gradients with respect to all arguments. f takes Tensors and returns a Tensor.
template <class F>
auto value_and_grad(F f) {
  return [f](const auto&... x) {
    return [&f](const auto&... own) {
      GradientTape tape;
      (tape.watch(own), ...);
      Tensor y = f(own...);
      auto gradients = tape.gradient(y, own...);
      return std::pair(y, std::move(gradients));
    }(x.alias()...);  // f may be given one tensor twice, or use it from outside
  };
}
// grad(f)(x, y): the gradients only; for a function of one argument, its gradient.
template <class F>
auto grad(F f) {
  return [f](const auto&... x) {
    auto gradients = value_and_grad(f)(x...).second;
    if constexpr (sizeof...(x) == 1)
      return gradients[0];
    else
      return gradients;
  };
}
// Returns x; no gradient flows through it.
LAMINA_API Tensor stop_gradient(const Operand& x);

}  // namespace lamina
