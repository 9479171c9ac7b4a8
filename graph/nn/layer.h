// Layer: weights and a function that uses them. A model is a Layer that owns others.
//
//   struct Tower : lm::nn::Layer {
//     lm::nn::Dense& hidden = add<lm::nn::Dense>(64, "relu");
//     lm::nn::Dense& head = add<lm::nn::Dense>(10);
//     lm::Tensor call(const lm::Tensor& x, bool) override { return head(hidden(x)); }
//   };
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"
#include "graph/nn/initializer.h"
#include "runtime/core/mutex.h"

namespace lamina::nn {

// Whether the innermost running layer of this thread was called with training = true.
LAMINA_API bool in_training();

// The dtype that layers of float32 weights compute in, for layers made from now on, in the whole process: "float32", "mixed_float16" or
// "mixed_bfloat16". Under the mixed ones weights stay float32. Products (dense, convolutions, recurrent layers, attention) read them in the
// half type; normalisations compute in float32; every layer gives the half type. Throws not_found for other names.
LAMINA_API void set_policy(const std::string& name);
LAMINA_API std::string policy();

class LAMINA_API Layer {
 public:
  // dtype: of the weights, where a layer has one; floating inputs are converted to it.
  explicit Layer(std::string name = "layer", std::optional<DType> dtype = {});
  virtual ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Runs call(). At the first call, build() makes the weights for x's type. training: as given, else inherited from the layer whose call()
  // is running, else false. Errors name the caller's line.
  Tensor operator()(const Operand& x, std::optional<bool> training = std::nullopt);

  // The layer's computation. Implement it in each layer; call it only through operator().
  virtual Tensor call(const Tensor& x, bool training) = 0;
  // Makes this layer's own weights with add_weight. Layers inside are built by their own first calls. Throws invalid_argument for inputs
  // that the layer does not support.
  virtual void build(const TensorType& input);
  // Builds this layer and those inside it without data: traces call() once for this type, whose dimensions may be symbols.
  Tensor build_for(const TensorType& input);

  // Whether floating inputs are converted to the layer's own dtype; without it another dtype is an error.
  void set_autocast(bool on) { autocast_ = on; }
  bool autocast() const { return autocast_; }
  // x as call() takes it.
  Tensor input_of(const Operand& x) const;

  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }
  bool built() const { return built_.load(std::memory_order_acquire); }

  // The weights of this layer and of those inside it, each once, in order of creation.
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;
  std::vector<Variable> non_trainable_variables() const;
  int64_t count_params() const;  // the number of elements of all variables
  std::vector<Tensor> get_weights() const;
  // Throws invalid_argument unless there is one value per variable, of its type.
  void set_weights(const std::vector<Tensor>& values, CallSite at = std::source_location::current());
  // The layers directly inside this one, in the order in which they were added.
  std::vector<std::shared_ptr<Layer>> layers() const;

  // Adds a layer inside this one, whose weights then belong to this layer too. Duplicate names get a number.
  template <class L, class... A>
  L& add(A&&... arguments) {
    auto layer = std::make_shared<L>(std::forward<A>(arguments)...);
    L& reference = *layer;
    add(std::shared_ptr<Layer>(std::move(layer)));
    return reference;
  }
  void add(std::shared_ptr<Layer> layer);

  // What build() takes in place of new weights, in order of creation: those of an equal layer, of which this one is a copy.
  void take_weights(std::vector<Variable> weights) { taken_ = {weights.rbegin(), weights.rend()}; }

 protected:
  // A new weight, initialised on the host and placed on the current device. An initializer without a seed uses the one set by
  // random::set_seed.
  Variable add_weight(const std::string& name, const Shape& shape, const Initializer& initializer, DType dtype = DType::f32,
                      bool trainable = true);
  // An existing Variable as a weight of this layer.
  void add_weight(const Variable& variable);
  // Where the user called this layer. Pass it to the ops in call().
  static CallSite call_site();
  // For the constructors of layers of products: their inputs and weights are in the policy's dtype.
  void compute_in_policy() { products_ = true; }
  // Whether inputs of this dtype are what call() takes besides those of the weights' dtype.
  bool computes_in(DType dtype) const { return products_ && half_ == dtype; }
  // A weight as call() uses it.
  Tensor read(const Variable& weight) const;

 private:
  void ensure_built(const TensorType& input);
  std::vector<Variable> collect(std::optional<bool> trainable) const;
  void collect(std::vector<Variable>& out, std::vector<const void*>& seen, std::optional<bool> trainable) const;

  std::string name_;
  std::optional<DType> dtype_;
  std::optional<DType> half_;  // of the policy that the layer was made under
  bool products_ = false;
  bool autocast_ = true;
  std::vector<std::variant<Variable, std::shared_ptr<Layer>>> items_;
  std::vector<Variable> taken_;  // the next one last
  std::atomic<bool> built_{false};
  Mutex building_;
};

}  // namespace lamina::nn
