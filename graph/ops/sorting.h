// Order: sorting, the largest, finding places, distinct values. NaN is larger than every number, as in NumPy. Part of ops.h.
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

inline ir::Value sort(ir::Graph& g, ir::Value x, int axis = -1, bool descending = false) {
  return g.add(def::sort, ir::make_attrs(SortAttrs{axis, descending}), {x});
}
// i64 places along the axis, of equal elements in their order.
inline ir::Value argsort(ir::Graph& g, ir::Value x, int axis = -1, bool descending = false) {
  return g.add(def::argsort, ir::make_attrs(SortAttrs{axis, descending}), {x});
}
// The k largest along the last axis, the largest first; of equal elements the first first. Result 0: their values, result 1: i64 places.
inline ir::Value top_k(ir::Graph& g, ir::Value x, int64_t k) { return g.add(def::top_k, ir::make_attrs(TopKAttrs{k}), {x}); }
// sorted [P..., n] ascending, values [P..., I...] -> i64 [P..., I...]: how many of the sorted elements are less than the value (right: or
// equal).
inline ir::Value searchsorted(ir::Graph& g, ir::Value sorted, ir::Value values, bool right = false) {
  return g.add(def::searchsorted, ir::make_attrs(SearchAttrs{right}), {sorted, values});
}
// The distinct elements along the last axis, in ascending order. x [..., n] -> i64 results
//   0: [..., n] the place where each occurs first; what is left: the place of the smallest   2: [..., n] how often each occurs, then 0
//   1: [..., n] which of them each element of x is                                           3: [...] how many there are
inline ir::Value unique(ir::Graph& g, ir::Value x) { return g.add(def::unique, {x}); }

}  // namespace lamina::ops
