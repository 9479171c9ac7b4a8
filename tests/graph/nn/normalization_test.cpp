// The numbers of BatchNorm equal those of moments and batch_norm written out.
#include "graph/nn/normalization.h"

#include <gtest/gtest.h>

#include <array>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "runtime/device/backend.h"
#include "tests/graph/nn/near.h"

namespace lamina::nn {
namespace {

Tensor drawn(const Shape& shape, uint32_t seed, DType dtype) {
  return astype(test::tensor_of(test::draws(size_t(size_of(shape).number()), seed), shape), dtype);
}

// The results of a training step, by the layer or by its formula: y, the gradients of x, gamma and beta, the moving statistics.
std::vector<Tensor> step(bool by_layer, bool traced, const BatchNormOptions& options, const Shape& shape) {
  BatchNorm layer(options);
  layer.build({options.dtype, shape});
  const Tensor x = drawn(shape, 1, options.dtype), dy = drawn(shape, 2, options.dtype);
  const auto wide = [](const Tensor& t) { return t.defined() && is_half(t.dtype()) ? astype(t, DType::f32) : t; };
  const auto value = [&](const std::optional<Variable>& weight) { return weight ? wide(weight->read()) : Tensor(); };
  const auto written_out = [&](const Tensor& given) {
    const Tensor x = wide(given);
    std::vector<int64_t> axes;
    for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
    const Moments batch = moments(x, axes);
    for (const auto& [moving, now] : {std::pair{layer.moving_mean(), batch.mean}, std::pair{layer.moving_variance(), batch.variance}}) {
      const Tensor was = moving.read();
      Variable(moving).assign(add(was, mul(sub(stop_gradient(now), was), 1 - options.momentum)));
    }
    const Tensor y = batch_norm(x, batch.mean, batch.variance, value(layer.beta()), value(layer.gamma()), options.epsilon);
    return astype(y, options.dtype);
  };
  const auto run = [&](const Tensor& x, const Tensor& dy) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = by_layer ? layer.call(x, true) : written_out(x);
    std::vector<Source> sources{Source(x)};
    for (const auto& weight : {layer.gamma(), layer.beta()})
      if (weight) sources.push_back(Source(*weight));
    std::vector<Tensor> out = tape.gradient(std::array{sum(mul(y, dy))}, sources);
    out.push_back(y);
    return out;
  };
  std::vector<Tensor> out = traced ? function(run)(x, dy) : run(x, dy);
  out.push_back(layer.moving_mean().read());
  out.push_back(layer.moving_variance().read());
  return out;
}

TEST(BatchNorm, TrainingMatchesMomentsAndBatchNorm) {
  for (const bool traced : {true, false})
    for (const Shape& shape : {Shape{4, 6, 5, 3}, Shape{20, 7}, Shape{1, 3}, Shape{40, 33, 16}})
      for (const auto& [scale, center] : {std::pair{true, true}, {false, true}, {true, false}, {false, false}})
        for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
          const BatchNormOptions options{.momentum = 0.9, .epsilon = 1e-2, .center = center, .scale = scale, .dtype = dtype};
          const std::vector<Tensor> got = step(true, traced, options, shape), want = step(false, traced, options, shape);
          ASSERT_EQ(got.size(), want.size());
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_EQ(got[i].to_vector<double>(), want[i].to_vector<double>())
                << dtype << " [" << text(shape) << "], gamma " << scale << ", beta " << center << ", traced " << traced << ": " << i;
        }
}

}  // namespace
}  // namespace lamina::nn
