// Batch normalisation for training as one op, and its gradient: builders and attributes. The pass decompose_batch_norm splits them into
// smaller ops unless a GPU library runs them (Target).
#pragma once
#include <optional>
#include <vector>

#include "graph/ops/ops.h"

namespace lamina::ops {

struct BatchNormAttrs {
  double epsilon = 1e-3;
  bool scale = true, center = true;  // whether there is a gamma, a beta
  bool library = false;              // run by a library: stays one op
  static constexpr auto fields = std::tuple{field("epsilon", &BatchNormAttrs::epsilon), field("scale", &BatchNormAttrs::scale),
                                            field("center", &BatchNormAttrs::center), field("library", &BatchNormAttrs::library)};
};

// Estimated operations (four per element) of normalising x, or empty where no library can do it: x must be floating with at least two rows.
// Lengths must be known.
LAMINA_API std::optional<double> batch_norm_operations(const TensorType& x);

}  // namespace lamina::ops
