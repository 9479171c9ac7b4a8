// Sorting, top-k, binary search and distinct values. NaN is larger than every number, as in NumPy.
#pragma once
#include <utility>

#include "graph/functions/op_functions.h"

namespace lamina {

// Along an axis, ascending unless `descending`.
LAMINA_API Tensor sort(const Operand& x, int axis = -1, bool descending = false);
// i64 indices that sort the axis; stable, in descending order too.
LAMINA_API Tensor argsort(const Operand& x, int axis = -1, bool descending = false);
// The k largest along an axis, in descending order, and their i64 indices; ties keep their order.
LAMINA_API std::pair<Tensor, Tensor> top_k(const Operand& x, int64_t k, int axis = -1);
// For each value, the number of elements of `sorted` (ascending along its last axis) that are less (with `right`: less or equal), i64. A
// sorted vector takes values of any shape; rows [..., n] take values [..., m].
LAMINA_API Tensor searchsorted(const Operand& sorted, const Operand& values, bool right = false);

// The distinct elements of a flattened tensor in ascending order. All NaNs count as one.
struct Unique {
  Tensor values;   // [n]; gradients flow to each first occurrence
  Tensor first;    // [n] i64: index of the first occurrence in the flattened tensor
  Tensor inverse;  // x's shape, i64: index into values
  Tensor counts;   // [n] i64
};
// While tracing, n must be known: use the overload with `size`.
LAMINA_API Unique unique(const Operand& x);
// The first `size` of them, padded with the smallest and count 0.
LAMINA_API Unique unique(const Operand& x, int64_t size);

}  // namespace lamina
