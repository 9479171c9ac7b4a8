#include "kernels/tree_sum.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "runtime/core/error.h"

namespace lamina::cpu {
namespace {

constexpr int64_t kBlock = 1024;  // elements added at a time: the stack stays in the first level of the cache

// The type in which elements of T are added: integers wrap, so without signs.
template <class T>
struct Sum {
  using type = T;
};
template <class T>
  requires std::is_integral_v<T>
struct Sum<T> {
  using type = std::make_unsigned_t<T>;
};
template <class T>
  requires std::is_same_v<T, f16> || std::is_same_v<T, bf16>
struct Sum<T> {
  using type = float;
};

template <class From, class To>
void add_all(const TreeSum& sum, std::span<const void* const> arrays, void* result) {
  using S = std::conditional_t<std::is_same_v<From, To>, typename Sum<From>::type, float>;
  size_t depth = 0, most = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    most = std::max(most, ++depth);
    if (sum.joins[i] >= depth) internal_error("tree_sum: a join without two entries");
    depth -= sum.joins[i];
  }
  if (depth != 1) internal_error("tree_sum: the arrays are no whole tree");
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
  if (sum.from == sum.to)
    return with_dtype(sum.from, [&]<class T>() {
      if constexpr (std::is_same_v<T, bool>)
        internal_error("tree_sum of bool");
      else
        add_all<T, T>(sum, arrays, result);
    });
  if (sum.from == DType::f16 && sum.to == DType::f32) return add_all<f16, float>(sum, arrays, result);
  if (sum.from == DType::bf16 && sum.to == DType::f32) return add_all<bf16, float>(sum, arrays, result);
  if (sum.from == DType::f32 && sum.to == DType::f16) return add_all<float, f16>(sum, arrays, result);
  if (sum.from == DType::f32 && sum.to == DType::bf16) return add_all<float, bf16>(sum, arrays, result);
  internal_error(cat("tree_sum from ", sum.from, " to ", sum.to));
}

}  // namespace lamina::cpu
