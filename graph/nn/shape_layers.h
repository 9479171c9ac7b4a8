// Layers without weights: Flatten, Dropout, Input.
#pragma once
#include <functional>
#include <optional>

#include "graph/nn/layer.h"

namespace lamina::nn {

// x [n, a, b, ...] -> [n, a b ...]; [n] -> [n, 1].
class LAMINA_API Flatten : public Layer {
 public:
  explicit Flatten(std::string name = "flatten") : Layer(std::move(name)) {}
  Tensor call(const Tensor& x, bool training) override;
};

// x [n, ...] -> [n, shape...]; one length may be -1: it is inferred.
class LAMINA_API Reshape : public Layer {
 public:
  explicit Reshape(std::vector<int64_t> shape, std::string name = "reshape") : Layer(std::move(name)), shape_(std::move(shape)) {}
  Tensor call(const Tensor& x, bool training) override;

 private:
  std::vector<int64_t> shape_;
};

// A function of a tensor as a layer.
class LAMINA_API Lambda : public Layer {
 public:
  explicit Lambda(std::function<Tensor(const Tensor&)> function, std::string name = "lambda")
      : Layer(std::move(name)), function_(std::move(function)) {}
  Tensor call(const Tensor& x, bool) override { return given(function_, "Lambda")(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

// In training, sets each element to 0 with probability rate and scales the others by 1 / (1 - rate); otherwise returns x. Draws from the
// default generator. Throws invalid_argument unless 0 <= rate < 1.
class LAMINA_API Dropout : public Layer {
 public:
  explicit Dropout(double rate, std::string name = "dropout");
  Tensor call(const Tensor& x, bool training) override;
  double rate() const { return rate_; }

 private:
  double rate_;
};

// The input shape of a Sequential, without the batch, and its dtype. With it the weights are made at once, not at the first call.
class LAMINA_API Input : public Layer {
 public:
  explicit Input(Shape shape, DType dtype = DType::f32, std::string name = "input");
  Tensor call(const Tensor& x, bool training) override;  // x; throws invalid_argument for another shape
  TensorType batch_type() const;                         // with a leading dimension of unknown length

 private:
  Shape shape_;
  DType dtype_;
};

}  // namespace lamina::nn
