// Sorting, top-k, binary search and distinct values. NaN is larger than every number, as in NumPy. Part of ops.h.
#pragma once
#include "graph/ir/graph.h"

namespace lamina::ops {

struct SortAttrs {
  int axis = -1;
  bool descending = false;
  static constexpr auto fields = std::tuple{ir::field("axis", &SortAttrs::axis), ir::field("descending", &SortAttrs::descending)};
};
struct SearchAttrs {
  bool right = false;
  static constexpr auto fields = std::tuple{ir::field("right", &SearchAttrs::right)};
};
struct TopKAttrs {
  int64_t k = 1;
  static constexpr auto fields = std::tuple{ir::field("k", &TopKAttrs::k)};
};

namespace def {
extern const ir::OpDef argsort, searchsorted, sort, top_k, unique;
}  // namespace def

ir::Value sort(ir::Graph& g, ir::Value x, int axis = -1, bool descending = false);
// i64 indices that sort the axis; stable.
ir::Value argsort(ir::Graph& g, ir::Value x, int axis = -1, bool descending = false);
// The k largest along the last axis, in descending order; ties keep their order. Result 0: values, result 1: i64 indices.
ir::Value top_k(ir::Graph& g, ir::Value x, int64_t k);
// sorted [P..., n] ascending, values [P..., I...] -> i64 [P..., I...]: the number of sorted elements less than each value (with `right`:
// less or equal).
ir::Value searchsorted(ir::Graph& g, ir::Value sorted, ir::Value values, bool right = false);
// The distinct elements along the last axis, in ascending order. x [..., n] -> i64 results
//   0: [..., n] index of each one's first occurrence, padded with that of the smallest   2: [..., n] counts, padded with 0
//   1: [..., n] for each element of x, which of them it is                               3: [...] how many there are
ir::Value unique(ir::Graph& g, ir::Value x);

}  // namespace lamina::ops
