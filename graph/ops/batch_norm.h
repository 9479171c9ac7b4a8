// Batch normalisation in training as one op, and its gradient: builders and attributes. The pass decompose_batch_norm takes them apart
// again, but for those that a GPU's library is to make (by its Target).
#pragma once
#include <optional>
#include <vector>

#include "graph/ops/ops.h"

namespace lamina::ops {

struct BatchNormAttrs {
  double epsilon = 1e-3;
  bool scale = true, center = true;  // whether there is a gamma, a beta
  bool library = false;              // stays one op: a library makes it
  static constexpr auto fields = std::tuple{field("epsilon", &BatchNormAttrs::epsilon), field("scale", &BatchNormAttrs::scale),
                                            field("center", &BatchNormAttrs::center), field("library", &BatchNormAttrs::library)};
};

// How many operations normalising an x of known lengths is taken for, four an element, where a library can: it is floating, with two rows
// at least; otherwise nothing.
LAMINA_API std::optional<double> batch_norm_operations(const TensorType& x);

}  // namespace lamina::ops
