// Losses: the error of predictions, per sample, or averaged by a Loss.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "graph/frontend/tensor.h"

namespace lamina::losses {

// A mean loss, by name or user-defined: operator()(y_true, y_pred) is the mean of per_sample(y_true, y_pred).
class LAMINA_API Loss {
 public:
  using PerSample = std::function<Tensor(const Operand& y_true, const Operand& y_pred)>;

  // "sparse_cross_entropy" and "categorical_cross_entropy" and "binary_cross_entropy" (of probabilities), "mean_squared_error" or "mse",
  // "mean_absolute_error" or "mae", "huber", "kl_divergence", "hinge", "cosine_similarity". Throws not_found with the nearest names.
  Loss(const char* name);
  Loss(const std::string& name);
  Loss(std::string name, PerSample per_sample, std::map<std::string, double> parameters = {})
      : name_(std::move(name)), per_sample_(std::move(per_sample)), parameters_(std::move(parameters)) {}

  const std::string& name() const { return name_; }
  // The numbers that it was made with, by their names.
  const std::map<std::string, double>& parameters() const { return parameters_; }
  Tensor per_sample(const Operand& y_true, const Operand& y_pred) const { return given(per_sample_, "Loss")(y_true, y_pred); }
  Tensor operator()(const Operand& y_true, const Operand& y_pred) const;  // [], of y_pred's dtype

 private:
  std::string name_;
  PerSample per_sample_;
  std::map<std::string, double> parameters_;
};

// Integer classes: labels [n] or [n, 1] of any numeric dtype (fractions are truncated), predictions [n, classes]. A label outside
// 0..classes-1 is an error of kind index, thrown by the call.
struct LAMINA_API SparseCrossEntropy : Loss {
  explicit SparseCrossEntropy(bool from_logits = false);
};
// Classes as rows of probabilities: both [n, classes].
struct LAMINA_API CategoricalCrossEntropy : Loss {
  explicit CategoricalCrossEntropy(bool from_logits = false);
};
// Independent targets in 0..1, of the predictions' shape.
struct LAMINA_API BinaryCrossEntropy : Loss {
  explicit BinaryCrossEntropy(bool from_logits = false);
};
struct LAMINA_API MeanSquaredError : Loss {
  MeanSquaredError();
};
struct LAMINA_API MeanAbsoluteError : Loss {
  MeanAbsoluteError();
};

// Quadratic near 0, linear from delta on. Huber 1964.
struct LAMINA_API Huber : Loss {
  explicit Huber(double delta = 1.0);
};
// Kullback-Leibler divergence of the predicted from the true distribution; both are rows of probabilities.
struct LAMINA_API KLDivergence : Loss {
  KLDivergence();
};
// Hinge loss for targets -1 and 1 (0 counts as -1): max(1 - target * prediction, 0).
struct LAMINA_API Hinge : Loss {
  Hinge();
};
// Minus the cosine of the angle between two rows: -1 for the same direction, 1 for the opposite one.
struct LAMINA_API CosineSimilarity : Loss {
  CosineSimilarity();
};

// Losses per sample: the last axis is summed or averaged. y_true is converted to y_pred's dtype; if one has an extra last axis of length 1,
// it is dropped. Throws invalid_argument for shapes that do not fit. Probabilities are clipped to [1e-7, 1 - 1e-7].
LAMINA_API Tensor sparse_categorical_crossentropy(const Operand& y_true, const Operand& y_pred, bool from_logits = false);
LAMINA_API Tensor categorical_crossentropy(const Operand& y_true, const Operand& y_pred, bool from_logits = false);
LAMINA_API Tensor binary_crossentropy(const Operand& y_true, const Operand& y_pred, bool from_logits = false);
LAMINA_API Tensor mean_squared_error(const Operand& y_true, const Operand& y_pred);
LAMINA_API Tensor mean_absolute_error(const Operand& y_true, const Operand& y_pred);
LAMINA_API Tensor huber(const Operand& y_true, const Operand& y_pred, double delta = 1.0);
LAMINA_API Tensor kl_divergence(const Operand& y_true, const Operand& y_pred);
LAMINA_API Tensor hinge(const Operand& y_true, const Operand& y_pred);
LAMINA_API Tensor cosine_similarity(const Operand& y_true, const Operand& y_pred);
inline Tensor mse(const Operand& y_true, const Operand& y_pred) { return mean_squared_error(y_true, y_pred); }
inline Tensor mae(const Operand& y_true, const Operand& y_pred) { return mean_absolute_error(y_true, y_pred); }

}  // namespace lamina::losses
