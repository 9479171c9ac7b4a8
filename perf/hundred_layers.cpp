#include "perf/hundred_layers.h"

#include "graph/frontend/data_parallel.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/random.h"
#include "graph/nn/dense.h"
#include "graph/nn/shape_layers.h"

namespace lamina::perf {
namespace {
constexpr int64_t kLayers = 100, kWidth = 64, kClasses = 10, kSide = 28;
}

HundredLayers::HundredLayers() : Layer("hundred_layers") {
  add<nn::Flatten>();
  for (int64_t i = 0; i < kLayers; ++i)
    add<nn::Dense>(kWidth, nn::DenseOptions{.activation = "relu", .kernel_initializer = nn::looks_linear(i > 0)});
  add<nn::Dropout>(0.2);
  add<nn::Dense>(kClasses, nn::DenseOptions{.kernel_initializer = "orthogonal"});
}

Tensor HundredLayers::call(const Tensor& x, bool) {
  Tensor h = x;
  for (auto& layer : layers()) h = (*layer)(h);
  return h;
}

Benchmark::Benchmark(int64_t batch, bool data_parallel) : batch_(batch) {
  random::set_seed(0);
  images_ = uniform({batch, kSide, kSide});
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < batch; ++i) labels.push_back(int32_t(i % kClasses));
  labels_ = tensor(labels);
  net_.build_for(images_.type());
  const auto train_on = [this](Tensor x, Tensor y) { return train(x, y); };
  if (data_parallel)
    step_ = distributed::data_parallel(train_on);
  else
    step_ = function(train_on);
  forward_ = function([this](Tensor x) { return net_(x); });
}

Tensor Benchmark::train(const Tensor& images, const Tensor& labels) {
  GradientTape tape;
  const Tensor cost = loss_(labels, net_(images, true));
  const std::vector<Variable> variables = net_.trainable_variables();
  sgd_.apply_gradients(tape.gradient(cost, variables), variables);
  return cost;
}

double Benchmark::forward_flops() const {
  return 2.0 * double(batch_) * double(kSide * kSide * kWidth + (kLayers - 1) * kWidth * kWidth + kWidth * kClasses);
}
double Benchmark::step_flops() const { return 3 * forward_flops() - 2.0 * double(batch_) * double(kSide * kSide * kWidth); }

}  // namespace lamina::perf
