#include "kernels/tree_sum.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lamina {
namespace cpu {
namespace {

constexpr int64_t kBlock = 1024;  // elements added at a time: their sums stay in the first level of the cache

template <class S>
void add(const S* a, const S* b, int64_t n, S* sum) {
  typedef S Vector __attribute__((vector_size(64)));  // of whatever the processor has
  constexpr int64_t kElements = sizeof(Vector) / sizeof(S);
  int64_t k = 0;
  for (; k + kElements <= n; k += kElements) {
    Vector x, y;
    std::memcpy(&x, a + k, sizeof x);
    std::memcpy(&y, b + k, sizeof y);
    x += y;
    std::memcpy(sum + k, &x, sizeof x);
  }
  for (; k < n; ++k) sum[k] = S(a[k] + b[k]);
}

template <class From, class To, class S>
void add_all(const TreeSum& sum, std::span<const void* const> arrays, void* result) {
  constexpr bool from_as_is = sizeof(From) == sizeof(S), to_as_is = sizeof(To) == sizeof(S);  // else half types, added in f32
  const size_t most = size_t(stack_depth(sum, arrays.size()));
  std::vector<S> sums(most * kBlock);
  std::vector<const S*> stack(most);
  for (int64_t at = 0; at < sum.count; at += kBlock) {
    const int64_t n = std::min(kBlock, sum.count - at);
    To* to = static_cast<To*>(result) + at;
    size_t depth = 0;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const From* x = static_cast<const From*>(arrays[i]) + at;
      if constexpr (from_as_is) {
        stack[depth] = reinterpret_cast<const S*>(x);
      } else {
        S* converted = sums.data() + depth * kBlock;
        for (int64_t k = 0; k < n; ++k) converted[k] = S(x[k]);
        stack[depth] = converted;
      }
      ++depth;
      for (int join = 0; join < sum.joins[i]; ++join) {
        --depth;
        S* joined = sums.data() + (depth - 1) * kBlock;
        if constexpr (to_as_is)
          if (depth == 1 && i + 1 == arrays.size()) joined = reinterpret_cast<S*>(to);
        add(stack[depth - 1], stack[depth], n, joined);
        stack[depth - 1] = joined;
      }
    }
    if constexpr (!to_as_is)
      for (int64_t k = 0; k < n; ++k) to[k] = To(stack[0][k]);
    else if (static_cast<const void*>(stack[0]) != to)
      std::memcpy(to, stack[0], size_t(n) * sizeof(S));
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
