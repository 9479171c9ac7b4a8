// The benchmark: Flatten(28x28), 100 x Dense(64, relu), Dropout(0.2), Dense(10), float32, trained with SGD on a mean sparse cross entropy.
#pragma once
#include <functional>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/nn/layer.h"
#include "graph/nn/loss.h"
#include "graph/nn/optimizer.h"

namespace lamina::perf {

struct HundredLayers : nn::Layer {
  HundredLayers();
  Tensor call(const Tensor& x, bool training) override;
};

// A network, its optimizer, and a batch, or this rank's rows of one. step() and forward() are traced at their first call.
class Benchmark {
 public:
  explicit Benchmark(int64_t batch, bool data_parallel = false);
  void step() { step_(images_, labels_); }
  void forward() { forward_(images_); }
  void step_eagerly() { train(images_, labels_); }

  std::vector<Variable> variables() const { return net_.trainable_variables(); }

  // Floating-point operations (a multiply-add counts as two). A step has forward and backward, without the gradient of the images and the
  // update.
  double forward_flops() const;
  double step_flops() const;

 private:
  Tensor train(const Tensor& images, const Tensor& labels);
  int64_t batch_;
  HundredLayers net_;
  optim::SGD sgd_{0.003};
  losses::SparseCrossEntropy loss_{true};
  Tensor images_, labels_;
  std::function<Tensor(const Tensor&, const Tensor&)> step_;
  std::function<Tensor(const Tensor&)> forward_;
};

}  // namespace lamina::perf
