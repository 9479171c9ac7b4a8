#include "kernels/tree_sum.h"

#include <algorithm>
#include <vector>

namespace lamina {
namespace cpu {
namespace {

constexpr int64_t kBlock = 1024;  // elements added at a time: the stack stays in the first level of the cache

template <class From, class To, class S>
void add_all(const TreeSum& sum, std::span<const void* const> arrays, void* result) {
  const size_t most = size_t(stack_depth(sum, arrays.size()));
  std::vector<S> stack(most * kBlock);
  for (int64_t at = 0; at < sum.count; at += kBlock) {
    const int64_t n = std::min(kBlock, sum.count - at);
    S* top = stack.data() - kBlock;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const From* x = static_cast<const From*>(arrays[i]) + at;
      int joins = sum.joins[i];
      if (joins > 0) {  // the first sum needs no copy
        for (int64_t k = 0; k < n; ++k) top[k] = S(top[k] + S(x[k]));
        --joins;
      } else {
        top += kBlock;
        for (int64_t k = 0; k < n; ++k) top[k] = S(x[k]);
      }
      for (; joins > 0; --joins) {
        S* lower = top - kBlock;
        for (int64_t k = 0; k < n; ++k) lower[k] = S(lower[k] + top[k]);
        top = lower;
      }
    }
    To* y = static_cast<To*>(result) + at;
    for (int64_t k = 0; k < n; ++k) y[k] = To(top[k]);
  }
}

}  // namespace

void tree_sum(const TreeSum& sum, std::span<const void* const> arrays, void* result) {
  with_types_of(sum, [&]<class From, class To, class S>() { add_all<From, To, S>(sum, arrays, result); });
}

}  // namespace cpu

int stack_depth(const TreeSum& sum, size_t arrays) {
  int depth = 0, most = 0;
  for (size_t i = 0; i < arrays; ++i) {
    most = std::max(most, ++depth);
    if (sum.joins[i] >= depth) internal_error("tree_sum: a join without two entries");
    depth -= sum.joins[i];
  }
  if (depth != 1) internal_error("tree_sum: the arrays are no whole tree");
  return most;
}

}  // namespace lamina
