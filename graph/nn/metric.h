// Metrics: the quality of predictions, for reports.
#pragma once
#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"

namespace lamina::metrics {

// 1 where the prediction is right, else 0; f32, one per sample. y_pred [n, classes] with labels y_true [n] or [n, 1], or with rows [n,
// classes]: compares the argmax. y_pred [n] or [n, 1]: above 0.5 means 1. Throws invalid_argument for other shapes.
LAMINA_API Tensor matches(const Operand& y_true, const Operand& y_pred);
// The mean of matches: [], f32.
LAMINA_API Tensor accuracy(const Operand& y_true, const Operand& y_pred);

// A mean over many batches that counts each sample once. Its state is kept in Variables, so update() can be traced.
class LAMINA_API Mean {
 public:
  explicit Mean(const std::string& name = "mean");
  void update(const Operand& values) const;  // of any shape and numeric dtype
  Tensor result() const;                     // [], f64; 0 before the first update
  void reset() const;

 private:
  Variable total_, count_;
};

class LAMINA_API Accuracy : public Mean {
 public:
  explicit Accuracy(const std::string& name = "accuracy") : Mean(name) {}
  void update(const Operand& y_true, const Operand& y_pred) const { Mean::update(Operand(matches(y_true, y_pred), y_pred.at())); }
};

}  // namespace lamina::metrics
