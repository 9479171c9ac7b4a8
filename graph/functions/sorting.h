// Order: sorting, the largest, searching, distinct values. NaN is larger than every number, as in NumPy.
#pragma once
#include <utility>

#include "graph/functions/op_functions.h"

namespace lamina {

// Along an axis, ascending unless `descending`.
LAMINA_API Tensor sort(const Operand& x, int axis = -1, bool descending = false);
// The i64 places that sort puts in order; equal elements keep theirs, in descending order too.
LAMINA_API Tensor argsort(const Operand& x, int axis = -1, bool descending = false);
// The k largest along an axis, the largest first, and their i64 places; of equal elements the first come first.
LAMINA_API std::pair<Tensor, Tensor> top_k(const Operand& x, int64_t k, int axis = -1);
// For each value how many of `sorted` (ascending along its last axis) are less than it (right: or equal), i64: where it would stand. A
// sorted vector takes values of any shape; rows [..., n] take values [..., m] each.
LAMINA_API Tensor searchsorted(const Operand& sorted, const Operand& values, bool right = false);

// The distinct elements of a flattened tensor in ascending order, all NaNs as one, ...
struct Unique {
  Tensor values;   // [n]; gradients flow to where each stands first
  Tensor first;    // [n] i64: the place of its first occurrence in the flattened tensor
  Tensor inverse;  // x's shape, i64: which of the values each element is
  Tensor counts;   // [n] i64
};
// While tracing, n must be known: see below.
LAMINA_API Unique unique(const Operand& x);
// ... the first `size` of them; what is missing is the smallest again, with count 0.
LAMINA_API Unique unique(const Operand& x, int64_t size);

}  // namespace lamina
