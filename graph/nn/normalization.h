// Normalisation layers (mean 0, variance 1), and Embedding, a table of learned rows.
#pragma once
#include "graph/functions/normalize.h"
#include "graph/nn/layer.h"
#include "graph/nn/weight.h"

namespace lamina::nn {

struct BatchNormOptions {
  double momentum = 0.99;  // of the moving statistics: moving = momentum * moving + (1 - momentum) * batch
  double epsilon = 1e-3;
  bool center = true, scale = true;  // whether beta and gamma exist
  DType dtype = DType::f32;
  std::string name = "batch_norm";
};

// x [..., c], per channel: (x - mean) / sqrt(variance + epsilon) * gamma + beta. Training uses the batch's statistics and updates the
// moving ones; otherwise the moving ones are used. gamma, beta, moving_mean and moving_variance are [c]; the last two are not trainable,
// and f32 if the layer has a half type.
class LAMINA_API BatchNorm : public Layer {
 public:
  explicit BatchNorm(BatchNormOptions options = {});
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;

  const std::optional<Variable>& gamma() const { return gamma_.if_made(); }
  const std::optional<Variable>& beta() const { return beta_.if_made(); }
  const Variable& moving_mean() const { return *moving_mean_; }  // after the first call
  const Variable& moving_variance() const { return *moving_variance_; }
  const BatchNormOptions& options() const { return options_; }

 private:
  BatchNormOptions options_;
  Weight gamma_, beta_, moving_mean_, moving_variance_;
};

struct LayerNormOptions {
  std::vector<int64_t> axes{-1};
  double epsilon = 1e-3;
  bool center = true, scale = true;
  DType dtype = DType::f32;
  std::string name = "layer_norm";
};

// Normalises each sample over these axes, the last ones of x, then multiplies by gamma and adds beta, which have the axes' shape.
class LAMINA_API LayerNorm : public Layer {
 public:
  explicit LayerNorm(LayerNormOptions options = {});
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;

  const std::optional<Variable>& gamma() const { return gamma_.if_made(); }
  const std::optional<Variable>& beta() const { return beta_.if_made(); }
  const LayerNormOptions& options() const { return options_; }

 private:
  LayerNormOptions options_;
  Weight gamma_, beta_;
};

struct RMSNormOptions {
  double epsilon = 1e-6;
  DType dtype = DType::f32;
  std::string name = "rms_norm";
};
// x / sqrt(mean of squares over the last axis + epsilon) * scale; scale has that axis's length.
class LAMINA_API RMSNorm : public Layer {
 public:
  explicit RMSNorm(RMSNormOptions options = {});
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;
  const Variable& scale() const { return *scale_; }  // after the first call
  const RMSNormOptions& options() const { return options_; }

 private:
  RMSNormOptions options_;
  Weight scale_;
};

struct GroupNormOptions {
  int64_t groups = 32;  // -1: one for each channel
  double epsilon = 1e-3;
  bool center = true, scale = true;  // whether beta and gamma exist
  DType dtype = DType::f32;
  std::string name = "group_norm";
};
// Normalises each sample of x [n, ..., c] within each group of channels, then multiplies by gamma [c] and adds beta [c].
class LAMINA_API GroupNorm : public Layer {
 public:
  explicit GroupNorm(GroupNormOptions options = {});
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;
  const std::optional<Variable>& gamma() const { return gamma_.if_made(); }
  const std::optional<Variable>& beta() const { return beta_.if_made(); }
  const GroupNormOptions& options() const { return options_; }

 private:
  int64_t groups_of(const TensorType& input) const;
  GroupNormOptions options_;
  Weight gamma_, beta_;
};

struct EmbeddingOptions {
  Initializer embeddings_initializer = "random_uniform";
  DType dtype = DType::f32;
  std::string name = "embedding";
};

// Integer ids [...] -> rows of a table [classes, width]: [..., width]. Negative ids count from the end. An id out of range is an error of
// kind index at run time.
class LAMINA_API Embedding : public Layer {
 public:
  Embedding(int64_t classes, int64_t width, EmbeddingOptions options = {});
  Tensor call(const Tensor& ids, bool training) override;
  void build(const TensorType& input) override;
  const Variable& embeddings() const { return *table_; }  // after the first call
  const EmbeddingOptions& options() const { return options_; }

 private:
  int64_t classes_, width_;
  EmbeddingOptions options_;
  Weight table_;
};

}  // namespace lamina::nn
